"""Times of marks, and long polls for them."""

import asyncio
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.service.controller import Controller
from controller.service.intervals import Intervals
from controller.service.polls import WOKEN_AT_A_TIME, AwaitedMark, LongPollNotifier, NewMarks
from controller.store.records import AppendedMark, StreamRecord
from noted_time.values import Mark, Note, StreamCut, StreamSettings, UnknownStream
from tests.support.controllers import WatchedMemory, deliver, serve_stream, wait_until_async

INTERVAL_MS = 60


def make_streams(*names: str) -> OwnedStreams:
    """Return streams that were marked at 0 on the steady clock and may advance."""
    owned_streams = OwnedStreams()
    owned_streams.clocks = {0: 0}
    for name in names:
        stream = StreamState(StreamRecord(name, name, StreamSettings(mark_interval_ms=INTERVAL_MS)))
        owned_streams.add(stream)
        for time in (1, 2):
            draft = Draft(make_moment(0))
            stream.take_notes([Note("a", time)], draft, 10)
            stream.advance_due(draft)
    return owned_streams


def make_moment(steady: int) -> Moment:
    return Moment(service=steady, wall=steady, steady=steady)


async def test_one_timer_wakes_all_streams() -> None:
    wakes: list[int] = []
    intervals = Intervals(lambda: wakes.append(1))
    owned_streams = make_streams("s", "t")
    intervals.begin(owned_streams)
    for _ in range(100):
        intervals.advance(Draft(make_moment(0)), owned_streams)
        assert not intervals.are_over(make_moment(1))
    await asyncio.sleep(3 * INTERVAL_MS / 1000)

    assert len(wakes) == 1


async def test_marks_are_due_when_interval_is_over() -> None:
    intervals = Intervals(lambda: None)
    owned_streams = make_streams("s", "t")
    intervals.begin(owned_streams)
    intervals.advance(Draft(make_moment(0)), owned_streams)
    over = [intervals.are_over(make_moment(INTERVAL_MS - early)) for early in (1, 0)]
    draft = Draft(make_moment(INTERVAL_MS))
    intervals.advance(draft, owned_streams)

    assert (over, len(draft.batch.list_puts(AppendedMark))) == ([False, True], 2)
    assert not intervals.are_over(make_moment(10 * INTERVAL_MS))


async def test_removed_stream_is_not_marked() -> None:
    intervals = Intervals(lambda: None)
    owned_streams = make_streams("s")
    intervals.begin(owned_streams)
    owned_streams.remove(owned_streams.stream("s"))
    draft = Draft(make_moment(INTERVAL_MS))
    intervals.advance(draft, owned_streams)

    assert not draft.batch.list_puts(AppendedMark)


async def start_poll(controller: Controller, after: int = 0) -> asyncio.Task[NewMarks]:
    before = len(controller._notifier)
    poll = asyncio.create_task(controller.polls.marks("s", None, after=after, wait_ms=30_000))
    await wait_until_async(lambda: len(controller._notifier) > before)
    return poll


async def test_poll_after_last_mark_is_answered_at_once(memory: WatchedMemory) -> None:
    """A wait would hide that the stream has lost marks."""
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("a", 5))
        async with asyncio.timeout(20):
            new_marks = await controller.polls.marks("s", None, after=2, wait_ms=30_000)

        assert new_marks.history.last_seq == 1


async def test_poll_times_out_empty(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        began_s = perf_counter()
        new_marks = await controller.polls.marks("s", None, after=0, wait_ms=50)

        assert (new_marks.history.last_seq, perf_counter() - began_s > 0.045) == (0, True)


async def test_poll_ends_when_its_stream_is_removed(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        poll = await start_poll(controller)
        await controller.drop_stream("s")

        with pytest.raises(UnknownStream):
            await poll


async def test_poll_ends_at_shutdown(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        poll = await start_poll(controller)
        controller.prepare_to_stop()
        new_marks = await poll
        late = await controller.polls.marks("s", None, after=0, wait_ms=30_000)

        assert (new_marks.history.last_seq, late.history.last_seq) == (0, 0)


async def test_cancelled_poll_is_forgotten(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        poll = await start_poll(controller)
        poll.cancel()
        await asyncio.wait([poll])

        assert (len(controller._notifier), dict(controller._notifier._waiting)) == (0, {})


S = AwaitedMark("s", "default", "seq", 1)


async def test_no_notification_is_lost() -> None:
    """The reader gets ten thousand notifications."""
    notifier = LongPollNotifier()
    rung = 0
    seen_count = 0

    async def read() -> None:
        nonlocal seen_count
        while seen_count < 10_000:
            if seen_count < rung:
                seen_count = rung
            else:
                assert await notifier.wait(S, 5.0)

    reader = asyncio.create_task(read())
    for turn in range(10_000):
        rung += 1
        notifier.notify("s")
        if turn % 3:
            await asyncio.sleep(0)
    await reader

    assert seen_count == 10_000


fields = st.sampled_from(["seq", "lower"])

waits_for = st.builds(
    AwaitedMark, st.sampled_from("st"), st.sampled_from("ab"), fields, st.integers(0, 6)
)


@given(waits=st.lists(waits_for, max_size=40), seq=st.integers(0, 6), lower=st.integers(0, 6))
def test_mark_wakes_only_polls_it_answers(waits: list[AwaitedMark], seq: int, lower: int) -> None:
    async def wake() -> list[bool]:
        notifier = LongPollNotifier()
        tasks = [asyncio.create_task(notifier.wait(awaited_mark, 5.0)) for awaited_mark in waits]
        await asyncio.sleep(0)
        notifier.notify_mark("s", "a", Mark(seq, lower, lower, StreamCut({})))
        for _ in range(len(waits) + 3):
            await asyncio.sleep(0)
        are_woken = [task.done() for task in tasks]
        notifier.shutdown()
        await asyncio.gather(*tasks)
        assert notifier._waiting == {}
        return are_woken

    value = {"seq": seq, "lower": lower}
    are_answered = [
        awaited_mark[:2] == ("s", "a") and awaited_mark.least <= value[awaited_mark.field]
        for awaited_mark in waits
    ]
    assert asyncio.run(wake()) == are_answered


async def test_polls_are_woken_in_small_groups() -> None:
    """Other tasks run in between."""
    notifier = LongPollNotifier()
    turns = 0
    done_turns: list[int] = []

    async def wait() -> None:
        await notifier.wait(S, 5.0)
        done_turns.append(turns)

    waits = [asyncio.create_task(wait()) for _ in range(20 * WOKEN_AT_A_TIME)]
    await asyncio.sleep(0)
    notifier.notify_mark("s", "default", Mark(1, 5, 5, StreamCut({})))
    while not all(task.done() for task in waits):
        turns += 1
        await asyncio.sleep(0)
    max_count = max(done_turns.count(turn) for turn in done_turns)

    assert (len(done_turns), max_count) == (20 * WOKEN_AT_A_TIME, WOKEN_AT_A_TIME)
