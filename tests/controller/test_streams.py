import asyncio

import pytest

from controller.aggregation import operator
from controller.aggregation.operator import ANONYMOUS
from noted_time import Accepted, Note, ScaleEvent, StreamSettings
from noted_time.values import UnknownStream
from tests.support.controllers import (
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    names,
    running,
    serving,
)

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


async def test_a_stream_made_again_is_another(store: Watched) -> None:
    """It has a new id and none of the old one's members, marks, readers and scale events."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 5, {0: 5}))
        await controller.report("s", "g", "r", {0: 5})
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
        old = controller.stream("s").id
        await controller.drop_stream("s")
        await controller.put_stream("s", {"mark_interval_ms": 0})
        answer = await deliver(controller, Note("a", 1))
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
            deliver(controller, Note("a", 9)),
            controller.drop_stream("s"),
            controller.put_stream("s", {"mark_interval_ms": 0}),
            deliver(controller, Note("a", 3)),
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
            await deliver(controller, Note("a"))

        assert store.reopened().streams() == []


async def test_a_stream_can_be_removed_while_it_waits_for_its_interval(
    memory: WatchedMemory,
) -> None:
    """The mark that was due is not written for a stream that is gone."""
    async with serving(memory, mark_interval_ms=30) as controller:
        await deliver(controller, Note("a", 1))
        await deliver(controller, Note("a", 2))
        await controller.drop_stream("s")
        await asyncio.sleep(0.1)

        assert len(memory.watch.batches[-1].marks) == 0


async def test_a_repeated_scale_event_changes_nothing(store: Watched) -> None:
    """A caller that did not hear the answer may ask again, also after a restart."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 1, {0: 5}))
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)
    async with running(store.reopened()) as controller:
        await controller.change("s", operator.scale, ANONYMOUS, SPLIT)

        assert (controller.stream("s").scale_events, len(store.reopened().streams())) == (
            [SPLIT],
            1,
        )


async def test_a_reader_group_outlives_a_restart(store: Watched) -> None:
    """Positions, readers' segments, and offline readers are there again."""
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
