from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.aggregation import operator
from controller.aggregation.operator import ANONYMOUS
from noted_time import Accepted, Note, Refused, ScaleEvent, StreamSettings
from noted_time.values import InvalidName, InvalidScale, Rejected, UnknownReader, UnknownStream
from tests.support.controllers import marks_of, names, running, serving, tell

if TYPE_CHECKING:
    from tests.support.controllers import Watched, WatchedMemory

pytestmark = pytest.mark.anyio

SPLIT = ScaleEvent({0: 500}, {2: (0,), 3: (0,)})


async def test_settings_outlive_a_restart(store: Watched) -> None:
    """A stream comes back with its id and everything that was set."""
    changes = {"writer_timeout_ms": 7, "mark_interval_ms": 8, "returning_writer": "exclude"}
    more = {"domains": ("b", "a"), "mark_retention_ms": 9}
    async with running(store) as controller:
        made, created = await controller.put_stream("s", changes | more)
    async with running(store.reopened()) as controller:
        again = controller.stream("s").record

        expected = StreamSettings(7, 8, "exclude", ("b", "a"), 9)
        assert (created, again, again.settings) == (True, made.record, expected)


async def test_a_change_of_settings_leaves_the_others(store: Watched) -> None:
    """What an update does not name stays as it was."""
    async with serving(store, writer_timeout_ms=7) as controller:
        stream, created = await controller.put_stream("s", {"mark_retention_ms": 9})

        settings = stream.settings
        kept = (settings.writer_timeout_ms, settings.mark_interval_ms, settings.mark_retention_ms)
        assert (created, kept) == (False, (7, 0, 9))


async def test_keys_are_not_taken_away(memory: Watched) -> None:
    """Marks of a domain would have nowhere to go: refused, and nothing changes."""
    async with serving(memory, domains=("a", "b")) as controller:
        with pytest.raises(Rejected, match="b missing"):
            await controller.put_stream("s", {"domains": ("a",), "writer_timeout_ms": 5})

        assert controller.stream("s").settings.writer_timeout_ms == 60_000


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a\n", "x" * 250])
async def test_a_bad_name_makes_no_stream(memory: WatchedMemory, name: str) -> None:
    """Names are 1 to 249 characters of a small alphabet."""
    async with running(memory) as controller:
        with pytest.raises(InvalidName):
            await controller.put_stream(name, {})

        assert names(controller) == []


async def test_a_stream_made_again_is_another(store: Watched) -> None:
    """It has a new id and none of the old one's members, marks, readers and scale events."""
    async with serving(store) as controller:
        await tell(controller, Note("a", 5, {0: 5}))
        await controller.report("s", "g", "r", {0: 5})
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
        old = controller.stream("s").id
        await controller.drop_stream("s")
        await controller.put_stream("s", {"mark_interval_ms": 0})
        answer = await tell(controller, Note("a", 1))
    async with running(store.reopened()) as controller:
        stream = controller.stream("s")

        marks = [(mark.seq, mark.lower) for mark in marks_of(controller)]
        left = (list(stream.groups), stream.scale_events)
        assert (stream.id != old, answer, marks, left) == (True, [Accepted(1)], [(1, 1)], ([], []))


async def test_a_stream_is_removed_and_made_again_in_one_breath(store: Watched) -> None:
    """Both calls, and notes before and after, may arrive while one commit is under way."""
    async with serving(store) as controller:
        old = controller.stream("s").id
        before, _, _, after = await asyncio.gather(
            tell(controller, Note("a", 9)),
            controller.drop_stream("s"),
            controller.put_stream("s", {"mark_interval_ms": 0}),
            tell(controller, Note("a", 3)),
        )
    async with running(store.reopened()) as controller:
        lowers = [mark.lower for mark in marks_of(controller)]

        assert (before, after, lowers) == ([Accepted(9)], [Accepted(3)], [3])
        assert controller.stream("s").id != old


async def test_a_stream_is_made_and_removed_in_one_batch(store: Watched) -> None:
    """Nothing of it is left, in memory or in the store."""
    async with running(store) as controller:
        await asyncio.gather(controller.put_stream("s", {}), controller.drop_stream("s"))

        assert (names(controller), store.streams()) == ([], [])


async def test_a_removed_stream_is_gone(store: Watched) -> None:
    """Notes to it are refused, and a restart does not bring it back."""
    async with serving(store) as controller:
        await controller.drop_stream("s")
    async with running(store.reopened()) as controller:
        with pytest.raises(UnknownStream):
            await tell(controller, Note("a"))

        assert store.reopened().streams() == []


async def test_a_stream_can_be_removed_while_it_waits_for_its_interval(
    memory: WatchedMemory,
) -> None:
    """The mark that was due is not written for a stream that is gone."""
    async with serving(memory, mark_interval_ms=30) as controller:
        await tell(controller, Note("a", 1))
        await tell(controller, Note("a", 2))
        await controller.drop_stream("s")
        await asyncio.sleep(0.1)

        assert len(memory.watch.batches[-1].marks) == 0


async def test_a_scale_event_outlives_a_restart(store: Watched) -> None:
    """A position on a successor implies the final offset of its predecessor, also later."""
    async with serving(store) as controller:
        await tell(controller, Note("a", 1, {0: 5}))
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
    async with running(store.reopened()) as controller:
        await tell(controller, Note("a", 2, {2: 1}))

        cuts = [dict(mark.cut.offsets) for mark in marks_of(controller)]
        assert (controller.stream("s").scale_events, cuts) == ([SPLIT], [{0: 5}, {0: 500, 2: 1}])


async def test_a_repeated_scale_event_changes_nothing(store: Watched) -> None:
    """A caller that did not hear the answer may ask again, also after a restart."""
    async with serving(store) as controller:
        await tell(controller, Note("a", 1, {0: 5}))
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
    async with running(store.reopened()) as controller:
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)

        assert (controller.stream("s").scale_events, len(store.reopened().streams())) == (
            [SPLIT],
            1,
        )


async def test_an_empty_scale_event_leaves_no_trace(memory: Watched) -> None:
    """An event that seals and creates nothing is none."""
    async with serving(memory) as controller:
        await controller.change("s", operator.scale, ANONYMOUS, ScaleEvent({}, {}))

        assert controller.stream("s").scale_events == []


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (ScaleEvent({9: 1}, {}), "segment 9: unknown"),
        (ScaleEvent({0: 4}, {}), "segment 0: sealed at 4, but writer 'a' noted 5"),
        (ScaleEvent({}, {2: (0,)}), "segment 0: not sealed by the event that creates 2"),
    ],
)
async def test_a_wrong_scale_event_changes_nothing(
    memory: Watched, event: ScaleEvent, says: str
) -> None:
    """It names the segment it is wrong about; the batch it was in goes on."""
    async with serving(memory) as controller:
        await tell(controller, Note("a", 1, {0: 5}))
        noted = asyncio.create_task(tell(controller, Note("a", 2, {0: 6})))
        with pytest.raises(InvalidScale, match=says):
            await controller.change("s", operator.scale, ANONYMOUS, event)

        assert (await noted, controller.stream("s").scale_events) == ([Accepted(2)], [])


async def test_a_note_beyond_the_end_of_a_sealed_segment_is_refused(memory: Watched) -> None:
    """The refusal carries the final offset."""
    async with serving(memory) as controller:
        await tell(controller, Note("a", 1, {0: 5}))
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)

        assert await tell(controller, Note("a", 2, {0: 501})) == [
            Refused("invalid_position", {0: 500})
        ]


async def test_a_reader_group_outlives_a_restart(store: Watched) -> None:
    """Positions, who reads what, and who went offline are there again."""
    async with serving(store) as controller:
        await controller.report("s", "g", "a", {0: 10, 2: 4})
        await controller.report("s", "g", "b", {1: 7})
        await controller.report("s", "g", "c", {})
        await controller.report("s", "g", "b", {2: 6})
        await controller.offline("s", "g", "a", {0: 8, 2: 1})
    async with running(store.reopened()) as controller:
        group = controller.stream("s").groups["g"]

        segments = {reader: group.segments_of(reader) for reader in group.readers}
        assert (group.position, segments) == ({0: 8, 1: 7, 2: 6}, {"b": {1: 7, 2: 6}, "c": {}})


async def test_a_reader_that_never_reported_cannot_go_offline(memory: Watched) -> None:
    """The error names the group, or the reader where the group is known."""
    async with serving(memory) as controller:
        await controller.report("s", "g", "a", {0: 1})
        with pytest.raises(UnknownReader, match="reader 'b' of 'g'"):
            await controller.offline("s", "g", "b", {0: 0})

        assert controller.stream("s").groups["g"].position == {0: 1}
