"""What becomes of a stream that is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.service import following as module
from controller.service.following import FRESH_S, Following
from controller.store.port import Batch
from noted_time import ScaleEvent
from noted_time.errors import UnknownStream
from tests.replicas.conftest import append, make
from tests.replicas.followed import polling, seqs, stopped
from tests.support.controllers import until

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio


async def test_who_asks_for_a_stream_that_is_not_there_is_told_so(
    following: Following, written: Written
) -> None:
    """And as soon as it is made it is found."""
    with pytest.raises(UnknownStream):
        await following.stream("t")
    followed = len(following)
    make(written, "t", "id-2")

    assert (followed, (await following.stream("t")).id) == (0, "id-2")


async def test_a_poll_ends_when_its_stream_is_removed(
    following: Following, written: Written, bell: Bell
) -> None:
    """It learns that there will be no more marks."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    following.noticed(["id-1"])

    with pytest.raises(UnknownStream):
        await waiting
    assert len(following) == 0


async def test_a_stream_made_again_under_its_name_is_read_anew(
    following: Following, written: Written, bell: Bell
) -> None:
    """A poll that waited for the old one goes on with the new one's marks."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    make(written, stream_id="id-2")
    append(written, *range(1, 6), stream_id="id-2")
    following.noticed(["id-1"])
    found = await waiting
    append(written, 6, stream_id="id-2")
    following.noticed(["id-2"])

    assert (found, await seqs(following)) == ([4, 5], [1, 2, 3, 4, 5, 6])


async def test_a_mark_of_a_stream_made_again_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """Its notice came while the look at the new stream was under way, which nobody knew by id."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    make(written, stream_id="id-2")
    append(written, 1, 2, 3, stream_id="id-2")
    written.open.clear()
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    append(written, 4, stream_id="id-2")
    following.noticed(["id-2"])
    written.open.set()

    assert await waiting == [4]


async def test_a_stream_removed_while_it_is_read_is_gone(
    following: Following, written: Written
) -> None:
    """It does not seem to have lost its marks."""
    reader = await stopped(following, written)
    written.commit(Batch(dropped=["id-1"]))
    written.open.set()

    with pytest.raises(UnknownStream):
        await reader


async def test_a_scale_event_counts_for_positions_at_once(
    following: Following, written: Written
) -> None:
    """A successor that is named stands for its predecessor, sealed at 20: mark 2 is reached."""
    before = (await following.stream("s")).window({1: 0}, None)
    written.commit(Batch(scales=[("id-1", 0, ScaleEvent({0: 20}, {1: (0,)}))]))
    following.noticed(["id-1"])
    after = (await following.stream("s")).window({1: 0}, None)

    assert (before.lower_seq, after.lower_seq) == (None, 2)


async def test_changed_settings_are_shown(following: Following, written: Written) -> None:
    """A key that was added is asked for like the others."""
    await following.stream("s")
    make(written, keys=("default", "ship_time"))
    following.noticed(["id-1"])
    stream = await following.stream("s")

    assert (stream.history("ship_time").last, stream.history(None).last_seq) == (None, 3)


async def test_where_marks_are_gone_in_between_the_stream_is_read_anew(
    following: Following, written: Written, hours: Hours
) -> None:
    """A window needs a gapless run of marks: older positions have no lower then."""
    await following.stream("s")
    append(written, 4, 5, 6)
    written.commit(Batch(forgotten=[("id-1", "default", 4)]))
    hours.now += FRESH_S + 0.001
    stream = await following.stream("s")

    assert (await seqs(following), stream.window({0: 40}, None).lower) == ([5, 6], None)


async def test_a_chain_that_was_replaced_is_read_anew(
    following: Following, written: Written, hours: Hours
) -> None:
    """A database restored from a copy has other marks under the same id."""
    await following.stream("s")
    del written._marks["id-1", "default"]
    append(written, 1, 2)
    hours.now += FRESH_S + 0.001

    assert await seqs(following) == [1, 2]


async def test_many_marks_are_shown_in_their_order(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop gets its turn in between; who asked waits for all of them."""
    monkeypatch.setattr(module, "AT_ONCE", 10)
    await seqs(following)
    append(written, *range(4, 100))
    following.noticed(["id-1"])

    assert await seqs(following) == list(range(1, 100))
