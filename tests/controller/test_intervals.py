import asyncio

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.service.intervals import Intervals
from controller.store.port import StreamRecord
from noted_time import Note, StreamSettings

INTERVAL_MS = 50


def streams(*names: str) -> OwnedStreams:
    """Return streams that were marked at 0 on the steady clock, whose time may advance since."""
    owned = OwnedStreams()
    owned.clocks = {0: 0}
    for name in names:
        stream = StreamState(StreamRecord(name, name, StreamSettings(mark_interval_ms=INTERVAL_MS)))
        owned.add(stream)
        for time in (1, 2):
            draft = Draft.at(at(0))
            stream.take_notes([Note("a", time)], draft, 10)
            stream.advance_due(draft)
    return owned


def at(steady: int) -> Moment:
    """Return a moment."""
    return Moment(service=steady, wall=steady, steady=steady)


async def test_however_often_streams_wait_one_timer_wakes_for_all() -> None:
    """A busy controller asks hundreds of times within an interval."""
    woken: list[int] = []
    intervals, owned = Intervals(lambda: woken.append(1)), streams("s", "t")
    intervals.begin(owned)
    for _ in range(100):
        intervals.advance(Draft.at(at(0)), owned)
        assert not intervals.are_over(at(1))
    await asyncio.sleep(3 * INTERVAL_MS / 1000)

    assert len(woken) == 1


async def test_marks_are_due_when_the_interval_is_over() -> None:
    """Then each stream is marked, and none waits."""
    intervals, owned = Intervals(lambda: None), streams("s", "t")
    intervals.begin(owned)
    intervals.advance(Draft.at(at(0)), owned)
    early, late = intervals.are_over(at(INTERVAL_MS - 1)), intervals.are_over(at(INTERVAL_MS))
    draft = Draft.at(at(INTERVAL_MS))
    intervals.advance(draft, owned)

    assert (early, late, len(draft.batch.marks)) == (False, True, 2)
    assert not intervals.are_over(at(10 * INTERVAL_MS))


async def test_a_stream_that_went_is_not_marked() -> None:
    """Another controller has it now, or it was removed."""
    intervals, owned = Intervals(lambda: None), streams("s")
    intervals.begin(owned)
    owned.remove(owned.stream("s"))
    draft = Draft.at(at(INTERVAL_MS))
    intervals.advance(draft, owned)

    assert draft.batch.marks == []
