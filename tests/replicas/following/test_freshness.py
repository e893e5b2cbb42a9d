"""What is fresh, and so shown without a reading."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.service.following import FRESH_S, Following
from tests.replicas.conftest import append
from tests.replicas.followed import seqs, stopped
from tests.support.controllers import until

if TYPE_CHECKING:
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio


async def test_a_stream_that_is_fresh_costs_no_reading(
    following: Following, written: Written, hours: Hours
) -> None:
    """The first who asks reads it whole; within a second nobody reads again."""
    found = [await seqs(following)]
    hours.now += FRESH_S
    found.append(await seqs(following))

    assert (found, written.readings) == ([[1, 2, 3]] * 2, 1)


async def test_a_stream_that_is_not_fresh_is_read_before_the_answer(
    following: Following, written: Written, hours: Hours
) -> None:
    """So a notice that never came costs one poll at most."""
    await seqs(following)
    append(written, 4, 5)
    hours.now += FRESH_S + 0.001

    assert await seqs(following) == [1, 2, 3, 4, 5]


async def test_what_was_noticed_is_read_before_the_answer(
    following: Following, written: Written
) -> None:
    """However fresh the stream was."""
    await seqs(following)
    append(written, 4)
    following.noticed(["id-1"])

    assert await seqs(following) == [1, 2, 3, 4]


async def test_all_who_ask_at_once_share_a_reading(following: Following, written: Written) -> None:
    """A hundred readers cost the database as much as one."""
    written.open.clear()
    readers = [asyncio.create_task(seqs(following)) for _ in range(100)]
    await until(lambda: written.readings > 0)
    written.open.set()

    assert (await asyncio.gather(*readers), written.readings) == ([[1, 2, 3]] * 100, 1)


async def test_who_gives_up_leaves_the_reading_to_the_others(
    following: Following, written: Written
) -> None:
    """A reader that hangs up takes nothing from those who ask for the same."""
    first = await stopped(following, written)
    second = asyncio.create_task(seqs(following))
    first.cancel()
    await asyncio.wait([first])
    written.open.set()

    assert (await second, written.readings) == ([1, 2, 3], 1)


async def test_a_reading_does_not_hold_the_loop_up(following: Following, written: Written) -> None:
    """What others do in the loop goes on while the database is slow."""
    reader = await stopped(following, written)
    await asyncio.sleep(0.01)
    still_reading = not reader.done()
    written.open.set()

    assert (still_reading, await reader) == (True, [1, 2, 3])


async def test_a_stream_that_changes_all_the_time_is_answered(
    following: Following,
) -> None:
    """Who asks waits for the notices before, not for those that come meanwhile."""
    await seqs(following)
    following.noticed(["id-1"])
    reader = asyncio.create_task(seqs(following))
    async with asyncio.timeout(20):
        while not reader.done():
            following.noticed(["id-1"])
            await asyncio.sleep(0)

    assert await reader == [1, 2, 3]


async def test_what_is_in_doubt_is_read_before_the_answer(
    following: Following, written: Written
) -> None:
    """Who changed a stream sees the change, before any notice of it comes."""
    await seqs(following)
    append(written, 4)
    following.doubt("s")

    assert await seqs(following) == [1, 2, 3, 4]
