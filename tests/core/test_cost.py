"""The cost of a note, an advance and a member; a long advance is made in slices."""

import gc
import math
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.reading import MissingWriters
from noted_time.rules import Aggregator, domain, lower_without, queues
from noted_time.rules.running_cut import RunningCut
from noted_time.values import Absence, Mark, Note, State, StreamSettings
from tests.support.controllers import WatchedMemory, deliver, serve_stream, wait_until_async
from tests.support.counting import CountedTime, count_cost
from tests.support.streams import TIMEOUT_MS, make_stream

FEW = 100
MANY = 10_000

SEGMENTS = 16


def crowd(members: int) -> Aggregator:
    stream = Aggregator(StreamSettings(writer_timeout_ms=TIMEOUT_MS))
    for number in range(members):
        stream.note(Note(str(number)), now=0)
    return stream


def shuffle_names(members: int) -> list[str]:
    return [str(number * 7919 % members) for number in range(members)]


def settle(stream: Aggregator) -> None:
    """Let all members note distinct times in a shuffled order, then let time advance once."""
    for number, writer in enumerate(shuffle_names(len(stream))):
        stream.note(Note(writer, CountedTime(number), {number % SEGMENTS: number + 1}), now=0)
    stream.advance("default", now=0, written_at=0)


def measure(members: int) -> tuple[float, float, float]:
    """Return the cost of the mean note, the mean advance and the dearest advance.

    The slowest member notes and time advances, repeatedly.
    """
    stream = crowd(members)
    settle(stream)
    notes = []
    advances = []
    for turn, writer in enumerate(shuffle_names(members)[:FEW]):
        said = Note(writer, CountedTime(members + turn), {turn % SEGMENTS: members + turn + 1})
        with count_cost() as note:
            stream.note(said, now=0)
        with count_cost() as advance:
            stream.advance("default", now=0, written_at=0)
        notes.append(note.bytecodes + note.comparisons)
        advances.append(advance.bytecodes + advance.comparisons)
    return sum(notes) / FEW, sum(advances) / FEW, max(advances)


def test_note_and_advance_cost_is_logarithmic() -> None:
    few = measure(FEW)
    many = measure(MANY)
    growth = math.log(MANY) / math.log(FEW)

    assert [
        many_operations <= few_operations * growth
        for few_operations, many_operations in zip(few, many, strict=True)
    ] == [True] * 3


def settling(members: int) -> float:
    """Return the cost per note of accepting notes of all members and advancing."""
    stream = crowd(members)
    with count_cost() as cost:
        settle(stream)
    return (cost.bytecodes + cost.comparisons) / members


def test_advance_cost_is_linear_in_new_notes() -> None:
    """Every member that noted since is processed once."""
    assert settling(MANY) <= settling(FEW) * math.log(MANY) / math.log(FEW)


def dearest(times: int) -> tuple[int, int]:
    """Return the bytecodes of the dearest note of so many times, and of an advance past them."""
    cut = RunningCut(0)
    dearest = 0
    for number in range(times):
        time = 1 + number * 7919 % times
        with count_cost() as note:
            cut.add(time, {number % SEGMENTS: time})
        dearest = max(dearest, note.bytecodes)
    with count_cost() as advance:
        cut.at(times + 1)
    return dearest, advance.bytecodes


def test_cost_does_not_grow_with_noted_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that wait for their time are thinned to a bounded number, step by step."""
    monkeypatch.setattr("noted_time.rules.running_cut.OFFSETS_KEPT", FEW)
    (note, advance) = dearest(2 * FEW)
    (later_note, later_advance) = dearest(MANY)

    assert (later_note <= 1.5 * note, later_advance <= 1.5 * advance) == (True, True)


def questions(members: int) -> int:
    """Return the cost of asking for the state while all hold."""
    stream = crowd(members)
    with count_cost() as cost:
        lower_without(stream.domains["default"], "0")
        stream.may_advance("default")
        stream.next_timeout()
        stream.expire(TIMEOUT_MS - 1)
    return cost.bytecodes + cost.comparisons


def test_query_cost_is_independent_of_member_count() -> None:
    """The lower without a writer, whether time may advance, and the next timeout."""
    assert questions(MANY) == questions(FEW)


def memory_of(members: int) -> float:
    """Return the bytes per member if all wrote to every segment."""
    gc.collect()
    tracemalloc.start()
    stream = Aggregator(StreamSettings())
    for number in range(members):
        position = {segment: 1_000_000 + number + segment for segment in range(SEGMENTS)}
        stream.note(Note(f"writer-{number}", 1_700_000_000_000 + number, position), now=0)
    stream.advance("default", now=0, written_at=0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(stream) == members
    return size / members


def test_a_member_of_16_segments_takes_less_than_3_kib() -> None:
    assert memory_of(5_000) < 3 * 1024


def test_an_interval_of_a_missing_writer_takes_150_bytes() -> None:
    """They are kept for months, also of writers that were forgotten; the name comes on top."""
    names = [f"pod-{number}" for number in range(MANY)]
    gc.collect()
    tracemalloc.start()
    missing = MissingWriters()
    for seq, name in enumerate(names):
        absence = Absence(name, "timed_out", 1_700_000_000_000 + seq, seq, {0: seq}, seq)
        missing.take(seq + 2, seq, (seq + 1, seq + 2), [absence], ())
    open_size, _ = tracemalloc.get_traced_memory()
    missing.take(MANY + 2, MANY, (MANY + 1, MANY + 2), (), names)
    ended_size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (open_size <= 150 * MANY, ended_size <= 150 * MANY) == (True, True)


KEY = "default"

WRITERS = "ABCDEF"


@contextmanager
def use_slices_of_one() -> Iterator[None]:
    with patch.object(domain, "BATCH_SIZE", 1), patch.object(queues, "BATCH_SIZE", 1):
        yield


def advance(stream: Aggregator, now: int) -> Mark | None:
    while not stream.settle_members(KEY):
        pass
    return stream.advance(KEY, now=now, written_at=now)


def expire(stream: Aggregator, now: int) -> set[str]:
    gone = set(stream.expire(now))
    while (due := stream.next_timeout()) is not None and due <= now:
        gone |= set(stream.expire(now))
    return gone


states: st.SearchStrategy[State] = st.sampled_from(["live", "live", "live", "idle", "finished"])

noted = st.tuples(st.sampled_from(WRITERS), st.integers(0, 3), states)

steps = st.lists(st.tuples(st.lists(noted, max_size=8), st.integers(0, 40)), max_size=12)


@given(steps)
def test_slices_agree_with_one_pass(steps: list[tuple[list[tuple[str, int, State]], int]]) -> None:
    stream_in_one_pass = make_stream(*WRITERS)
    piecewise = make_stream(*WRITERS)
    for stream in (stream_in_one_pass, piecewise):
        stream.reconfigure(stream.settings.__class__(writer_timeout_ms=60), now=0)
    times = dict.fromkeys(WRITERS, 0)
    now = 0
    ends = dict.fromkeys(WRITERS, 0)
    for notes, elapsed_ms in steps:
        now += elapsed_ms
        for writer, advance_ms, is_now in notes:
            times[writer] += advance_ms
            ends[writer] += 1
            note = Note(writer, times[writer], {WRITERS.index(writer): ends[writer]}, state=is_now)
            with use_slices_of_one():
                piecewise_answer = piecewise.note(note, now)
            assert stream_in_one_pass.note(note, now) == piecewise_answer
        marks = [advance(stream_in_one_pass, now)]
        expired_writers = expire(stream_in_one_pass, now)
        marks.append(advance(stream_in_one_pass, now))
        with use_slices_of_one():
            assert marks[0] == advance(piecewise, now)
            while not piecewise.settle_members(KEY):
                pass
            assert expired_writers == expire(piecewise, now)
            assert marks[1] == advance(piecewise, now)
            while not piecewise.settle_members(KEY):
                pass
        holding_writers = [
            set(stream.domains[KEY].find_holding_back())
            for stream in (stream_in_one_pass, piecewise)
        ]
        assert holding_writers[0] == holding_writers[1]


def test_member_noting_between_slices_does_not_hold() -> None:
    """Its turn comes later, and finds that it is ahead again."""
    stream = make_stream("UA", "DL", "AA")
    with use_slices_of_one():
        for writer in ("UA", "DL", "AA"):
            stream.note(Note(writer, 5), 0)
        assert advance(stream, 0) is not None
        holding_back = set(stream.domains[KEY].holding_back)
        (other, another) = {"UA", "DL", "AA"} - holding_back
        stream.note(Note(other, 9), 0)
        stream.note(Note(holding_back.pop(), 9), 0)

        assert (stream.may_advance(KEY), stream.domains[KEY].is_quiet) == (False, False)
        while not stream.settle_members(KEY):
            pass
        assert set(stream.domains[KEY].holding_back) == {another}


@pytest.mark.parametrize("ahead", range(2, len(WRITERS)))
async def test_outdated_entries_are_skipped_without_a_note(ahead: int) -> None:
    holder = WRITERS[0]
    other_writers = list(WRITERS[1 : ahead + 1])
    with use_slices_of_one():
        async with serve_stream(WatchedMemory()) as controller:
            await controller.put_stream("s", {"mark_interval_ms": 0})
            await deliver(controller, *(Note(writer) for writer in (holder, *other_writers)))
            for first in (10, 20):
                notes = (
                    Note(writer, first + number) for number, writer in enumerate(other_writers)
                )
                await deliver(controller, *notes)
            await deliver(controller, Note(holder, 30))
            await wait_until_async(
                lambda: controller.stream("s").histories[KEY].last_lower is not None
            )

            assert controller.stream("s").histories[KEY].last_lower == 20
