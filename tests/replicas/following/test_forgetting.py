"""What is followed no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.service import following as module
from controller.service.following import FORGET_S, Following
from controller.store.port import StoreUnavailable
from tests.replicas.conftest import append, make
from tests.replicas.followed import polling, stopped

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio


async def test_a_stream_that_nobody_asks_for_is_forgotten(
    following: Following, written: Written, hours: Hours
) -> None:
    """Those that are asked for stay."""
    make(written, "t", "id-2")
    await following.stream("s")
    hours.now += FORGET_S / 2
    await following.stream("t")
    hours.now += FORGET_S / 2 + 1
    following._sweep()

    assert (list(following._followed), list(following._by_id)) == (["t"], ["id-2"])


async def test_of_too_many_streams_the_one_goes_that_was_asked_for_the_longest_ago(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is followed is bounded; asked for again, the stream is read anew."""
    monkeypatch.setattr(module, "MOST", 2)
    for number, name in enumerate("tu", 2):
        make(written, name, f"id-{number}")
    for name in "stsu":
        await following.stream(name)

    assert list(following._followed) == ["s", "u"]


async def test_who_waits_for_a_stream_that_is_dropped_looks_again(
    following: Following, written: Written, bell: Bell
) -> None:
    """A controller that owns it by now shows marks of its own."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.drop("s")

    assert await waiting == [4]


async def test_a_stream_dropped_while_it_is_read_is_not_followed(
    following: Following, written: Written
) -> None:
    """A reading that is under way brings nothing back; who waits for it reads again."""
    reader = await stopped(following, written)
    following.clear()
    followed = len(following)
    written.open.set()

    assert (followed, await reader, written.readings) == (0, [1, 2, 3], 2)


async def test_after_the_end_every_call_is_refused(following: Following, bell: Bell) -> None:
    """Who waits is woken, and told so."""
    waiting = await polling(following, bell)
    await following.close()

    with pytest.raises(StoreUnavailable):
        await waiting
    with pytest.raises(StoreUnavailable):
        await following.names()
