"""Marks that went from a stream, as others show it that follow it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.service.following import FRESH_S, TRIM_S, Following
from controller.store.port import Batch, StoreUnavailable
from noted_time import Note
from tests.replicas.conftest import append
from tests.replicas.followed import seqs
from tests.replicas.pair import name_of, two
from tests.support.controllers import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.service.controller import Controller
    from controller.store.port import AppendedMark
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio

EVERY_ADVANCE = {"mark_interval_ms": 0}


def trim(written: Written, through: int = 2) -> None:
    """Drop the first marks of `s`."""
    written.commit(Batch(forgotten=[("id-1", "default", through)]))


# What is followed


async def test_marks_that_went_go_with_their_notice(following: Following, written: Written) -> None:
    """No time has to pass."""
    before = await seqs(following)
    trim(written)
    following.noticed(["id-1"], trimmed=True)

    assert (before, await seqs(following)) == ([1, 2, 3], [3])


async def test_who_trimmed_a_stream_does_not_see_what_went(
    following: Following, written: Written
) -> None:
    """Before any notice of it comes."""
    await seqs(following)
    trim(written)
    following.doubt("s", trimmed=True)

    assert await seqs(following) == [3]


async def test_after_lost_notices_it_is_read_what_went(
    following: Following, written: Written
) -> None:
    """One of them may have said so."""
    await seqs(following)
    trim(written)
    following.lost()

    assert await seqs(following) == [3]


async def test_what_went_is_found_in_the_end_without_any_notice(
    following: Following, written: Written, hours: Hours
) -> None:
    """What was truncated, or kept long enough, is not kept for ever by who follows."""
    await seqs(following)
    trim(written)
    hours.now += TRIM_S

    assert await seqs(following) == [3]


async def test_marks_that_went_while_others_came_are_gone(
    following: Following, written: Written
) -> None:
    """One look shows both."""
    await seqs(following)
    append(written, 4)
    trim(written)
    following.noticed(["id-1"])
    following.noticed(["id-1"], trimmed=True)

    assert await seqs(following) == [3, 4]


async def test_marks_that_went_during_a_look_are_gone_after_the_next(
    following: Following, written: Written
) -> None:
    """The look that is under way does not ask for them."""
    await seqs(following)
    written.open.clear()
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    trim(written)
    following.noticed(["id-1"], trimmed=True)
    written.open.set()

    assert (await seqs(following), written.readings) == ([3], 3)


async def test_marks_that_went_during_the_first_look_are_gone_after_the_next(
    following: Following, written: Written
) -> None:
    """It had read them before, and nobody knew by then which stream the notice was about."""
    written.open.clear()
    reader = asyncio.create_task(seqs(following))
    await until(lambda: written.readings == 1)
    trim(written)
    following.noticed(["id-1"], trimmed=True)
    written.open.set()
    await reader

    assert await seqs(following) == [3]


async def test_a_look_that_failed_leaves_it_to_the_next_to_find_what_went(
    following: Following, written: Written
) -> None:
    """The notice came once only."""
    await seqs(following)
    trim(written)
    written.failures = [StoreUnavailable("away")]
    following.doubt("s", trimmed=True)
    with pytest.raises(StoreUnavailable):
        await seqs(following)

    assert await seqs(following) == [3]


async def test_where_nothing_went_it_is_not_asked_for(
    following: Following, written: Written, hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at a stream reads what is after its last mark, and no mark from the first on."""
    await seqs(following)
    asked_after: list[int] = []
    marks = written.marks

    def spied(stream_id: str, key: str, after: int = 0) -> Iterator[AppendedMark]:
        asked_after.append(after)
        return marks(stream_id, key, after)

    monkeypatch.setattr(written, "marks", spied)
    following.noticed(["id-1"])
    await seqs(following)
    hours.now += FRESH_S + 0.001
    await seqs(following)

    assert asked_after == [2, 2]


# What two replicas show


async def truncated(controller: Controller, other: Controller) -> str:
    """Return a stream of the controller with marks 1 to 3, which the other has shown."""
    name = name_of(controller)
    await controller.put_stream(name, EVERY_ADVANCE)
    await controller.note(name, [Note("w", time, {0: 10 * time}) for time in (1, 2, 3)])
    shown = await other.stream_to_read(name)
    assert len(shown.history(None).after(0, 10)) == 3
    return name


async def test_marks_that_were_dropped_are_soon_shown_by_nobody(url: str) -> None:
    """Well before anybody would look by himself where the history begins."""
    async with two(url) as (a, b):
        name = await truncated(b, a)
        await b.truncate(name, {0: 30})
        async with asyncio.timeout(TRIM_S / 3):
            while (await a.stream_to_read(name)).history(None).first_seq < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        kept = [(await each.stream_to_read(name)).history(None).after(0, 10) for each in (a, b)]
        assert [[mark.seq for mark in marks] for marks in kept] == [[3], [3]]


async def test_marks_that_were_kept_for_long_enough_are_soon_shown_by_nobody(url: str) -> None:
    """Whoever has the stream forgets them, and says so."""
    async with two(url) as (a, b):
        name = await truncated(b, a)
        await asyncio.sleep(0.01)
        await b.put_stream(name, {"mark_retention_ms": 1})
        await b._committer.submit(lambda world, draft: world.stream(name).forget_old_marks(draft))
        async with asyncio.timeout(TRIM_S / 3):
            while (await a.stream_to_read(name)).history(None).first_seq < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        assert [mark.seq for mark in b.stream(name).history(None).after(0, 10)] == [3]
