"""What wakes a poll at who follows a stream."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.replicas.conftest import append
from tests.replicas.followed import poll, polling, seqs
from tests.support.controllers import until

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from controller.service.following import Following
    from tests.replicas.conftest import Written

pytestmark = pytest.mark.anyio


async def test_a_notice_wakes_a_poll_with_the_new_marks(
    following: Following, written: Written, bell: Bell
) -> None:
    """No time has to pass."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.noticed(["id-1"])

    assert await waiting == [4]


async def test_a_mark_that_is_noticed_during_a_look_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """The look has read the marks before it was there, so another one follows."""
    waiting = await polling(following, bell)
    written.open.clear()
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    append(written, 4)
    following.noticed(["id-1"])
    written.open.set()

    assert await waiting == [4]


async def test_a_mark_that_is_noticed_during_the_first_look_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """Though nobody knew by then which stream the notice was about."""
    written.open.clear()
    waiting = asyncio.create_task(poll(following, bell, after=3))
    await until(lambda: written.readings == 1)
    append(written, 4)
    following.noticed(["id-1"])
    written.open.set()

    assert await waiting == [4]


async def test_no_mark_is_lost_to_a_poll(
    following: Following, written: Written, bell: Bell
) -> None:
    """A thousand marks at random moments, with the clock standing: each one comes by its notice."""
    chance, last, seen = random.Random(7), 1003, [3]

    async def read() -> None:
        while seen[-1] < last:
            seen.extend(await poll(following, bell, seen[-1]))

    reader = asyncio.create_task(read())
    for seq in range(4, last + 1):
        append(written, seq)
        following.noticed(["id-1"])
        await asyncio.sleep(chance.choice([0, 0, 0.0001, 0.001]))
    async with asyncio.timeout(20):
        await reader

    assert seen == list(range(3, last + 1))


async def test_a_notice_of_other_streams_costs_nothing(
    following: Following, written: Written, bell: Bell
) -> None:
    """Neither a reading nor anybody's sleep."""
    waiting = await polling(following, bell)
    following.noticed(["id-2", "id-3"])
    await asyncio.sleep(0.02)

    assert (waiting.done(), written.readings) == (False, 1)
    waiting.cancel()


async def test_a_notice_without_new_marks_wakes_nobody(
    following: Following, written: Written, bell: Bell
) -> None:
    """It is read what there is, and the poll sleeps on."""
    waiting = await polling(following, bell)
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    await asyncio.sleep(0.02)

    assert (waiting.done(), len(bell)) == (False, 1)
    waiting.cancel()


async def test_a_thousand_polls_are_woken_by_one_reading(
    following: Following, written: Written, bell: Bell
) -> None:
    """However many wait for a stream, the database is asked once."""
    waiting = [asyncio.create_task(poll(following, bell, after=3)) for _ in range(1000)]
    await until(lambda: len(bell) == 1000)
    append(written, 4)
    following.noticed(["id-1"])

    assert (await asyncio.gather(*waiting), written.readings) == ([[4]] * 1000, 2)


async def test_after_lost_notices_whoever_waits_looks(
    following: Following, written: Written, bell: Bell
) -> None:
    """A mark whose notice was lost comes as soon as notices are heard again."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.lost()

    assert await waiting == [4]


async def test_after_lost_notices_nothing_is_read_that_nobody_waits_for(
    following: Following, written: Written
) -> None:
    """Until it is asked for: then it counts as changed."""
    await seqs(following)
    append(written, 4)
    following.lost()
    await asyncio.sleep(0.02)
    before = written.readings

    assert (before, await seqs(following)) == (1, [1, 2, 3, 4])
