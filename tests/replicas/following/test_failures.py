"""What who follows a stream is told while the database fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.service import following as module
from controller.service.following import FRESH_S, Following
from controller.store.port import StoreUnavailable
from tests.replicas.conftest import append
from tests.replicas.followed import polling, seqs, stopped

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio


async def test_while_the_database_is_away_all_who_ask_are_told_so(
    following: Following, written: Written
) -> None:
    """And those who ask later are answered again."""
    written.failures = [StoreUnavailable("away")]
    failed = await asyncio.gather(*(seqs(following) for _ in range(10)), return_exceptions=True)
    answered = await seqs(following)

    assert ({type(each) for each in failed}, answered) == ({StoreUnavailable}, [1, 2, 3])


async def test_a_fresh_stream_is_shown_while_the_database_is_away(
    following: Following, written: Written, hours: Hours
) -> None:
    """No longer than it is fresh."""
    await seqs(following)
    written.failures = [StoreUnavailable("away")]
    shown = await seqs(following)
    hours.now += FRESH_S + 0.001

    with pytest.raises(StoreUnavailable):
        await seqs(following)
    assert shown == [1, 2, 3]


async def test_a_poll_looks_itself_when_a_noticed_mark_could_not_be_read(
    following: Following, written: Written, bell: Bell
) -> None:
    """It does not sleep over a mark that is there."""
    waiting = await polling(following, bell)
    append(written, 4)
    written.failures = [StoreUnavailable("away")]
    following.noticed(["id-1"])

    assert await waiting == [4]


async def test_a_poll_is_told_when_it_cannot_look_either(
    following: Following, written: Written, bell: Bell
) -> None:
    """Its caller tries again."""
    waiting = await polling(following, bell)
    written.failures = [StoreUnavailable("away"), StoreUnavailable("still away")]
    following.noticed(["id-1"])

    with pytest.raises(StoreUnavailable, match="still away"):
        await waiting


async def test_who_asks_does_not_wait_for_a_slow_database_for_ever(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told so, and when the reading ends after all the stream is there."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    reader = await stopped(following, written)
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        await reader
    written.open.set()
    monkeypatch.undo()

    assert (await seqs(following), written.readings) == ([1, 2, 3], 1)


async def test_the_failure_of_an_earlier_look_is_not_an_answer(
    following: Following, written: Written, hours: Hours
) -> None:
    """Who asked after it began gets a look of its own: the stream may have been made since."""
    early = await stopped(following, written)
    hours.now += 0.1
    late = asyncio.create_task(seqs(following))
    await asyncio.sleep(0)
    written.failures = [StoreUnavailable("away")]
    written.open.set()
    with pytest.raises(StoreUnavailable):
        await early

    assert await late == [1, 2, 3]
