"""Notes of observers, by ends, clocks, timestamps and resolved records of a log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.observing import IngestionNotes, NewestTimes, Outcome, SegmentClocks, Stamp
from noted_time.values import Note, Rejected
from tests.core.test_open_transactions import DELAY, LATER, Partition

Happening = tuple[str, int]

"""`append` to a segment, `pass` that many ms, or `look`: the next reading of clock or ends."""

happenings = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(1, 40)),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Log:
    """A log that grows while it is observed: what happens before `look` comes first."""

    happenings: Iterator[Happening]
    time: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    visible_at: dict[tuple[int, int], int] = field(default_factory=dict)
    over: bool = False

    def clock(self) -> int:
        self._happen()
        return self.time

    def read_ends(self) -> dict[int, int]:
        self._happen()
        return dict(self.ends)

    def is_covered(self, note: Note) -> bool:
        """Whether all that was visible before the note's time lies below its position."""
        assert note.time is not None
        for (segment, offset), visible_at in self.visible_at.items():
            if visible_at < note.time and offset >= note.position.get(segment, 0):
                return False
        return True

    def _happen(self) -> None:
        for happening, number in self.happenings:
            if happening == "look":
                return
            if happening == "pass":
                self.time += number
                continue
            offset = self.ends.get(number, 0)
            self.visible_at[number, offset] = self.time
            self.ends[number] = offset + 1
        self.over = True


@given(happenings, st.sampled_from([0, 7]))
def test_visible_records_lie_below_the_ends(course: list[Happening], skew_ms: int) -> None:
    """The log grows and the clock advances before and between the two readings."""
    log = Log(iter(course))
    ingestion = IngestionNotes(10, 20, skew_ms)
    uncovered_notes = []
    while not log.over:
        now = log.clock()
        note = ingestion.due(now, log.read_ends())
        uncovered_notes += [note] if note is not None and not log.is_covered(note) else []

    assert uncovered_notes == []


def filter_notes(notes: list[Note | None]) -> list[Note]:
    return [note for note in notes if note is not None]


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=30))
def test_neither_times_nor_ends_of_notes_go_back(readings: list[tuple[int, bool]]) -> None:
    """If the clock steps back, a change is noted once the clock has caught up."""
    ingestion = IngestionNotes(10, 20)
    end = 0
    notes = []
    for now, appends in readings:
        end += appends
        notes.append(ingestion.due(now, {0: end}))
    times_and_ends = [(note.time, note.position.get(0, 0)) for note in filter_notes(notes)]

    assert times_and_ends == sorted(times_and_ends)


@pytest.mark.parametrize(
    ("looks", "noted"),
    [
        (
            [(0, 5), (10, 5), (20, 6), (30, 6), (49, 6), (50, 6), (60, 6)],
            [(0, 5), (20, 6), (50, 6)],
        ),
        ([(100, 1), (40, 2), (99, 3), (100, 3)], [(100, 1), (100, 3)]),
        ([(7, 0), (8, 0)], [(7, 0)]),
    ],
    ids=["ends change, or the last time is old", "the clock is behind", "the log is empty"],
)
def test_look_is_noted(looks: list[tuple[int, int]], noted: list[tuple[int, int]]) -> None:
    """Each has its time and an end. A segment that ends at 0 counts as missing."""
    ingestion = IngestionNotes(poll_ms=10, max_lag_ms=30)
    notes = [ingestion.due(now, {0: end}) for now, end in looks]
    expected = []
    for now, end in noted:
        expected.append(Note("ingestion", now, {0: end} if end else {}, "ingestion"))

    assert filter_notes(notes) == expected


@pytest.mark.parametrize("after", [{0: 5, 7: 2}, {0: 5}])
def test_decreasing_end_is_refused_by_segment(after: dict[int, int]) -> None:
    ingestion = IngestionNotes(10, 30)
    ingestion.due(100, {0: 5, 7: 1})
    ingestion.due(50, {0: 5, 7: 3})

    with pytest.raises(Rejected, match=r"the log was .*: segment 7 ends at \d and ended at 3"):
        ingestion.due(101, after)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"poll_ms": 9}, "poll_ms must be 10 or more, not 9"),
        ({"max_lag_ms": 999}, r"max_lag_ms must be at least poll_ms \(1000\), not 999"),
        ({"skew_ms": -1}, "skew_ms must be 0 or more, not -1"),
    ],
)
def test_invalid_delays_and_times_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Rejected, match=sentence):
        IngestionNotes(**{"poll_ms": 1000, "max_lag_ms": 1000, **options})


def test_the_skew_is_taken_off() -> None:
    note = IngestionNotes(10, 30, skew_ms=50).due(100, {0: 1})

    assert note == Note("ingestion", 50, {0: 1}, "ingestion")


# Clocks of segments, by the cases of other engines; see tests/golden/README.md


GOLDEN = Path(__file__).parents[1] / "golden"

SOURCES: list[dict[str, Any]] = json.loads((GOLDEN / "hazelcast_source.json").read_text("utf-8"))


def removes_segments(case: dict[str, Any]) -> bool:
    return any(step["op"] == "remove" for step in case["steps"])


JET = [case for case in SOURCES if not removes_segments(case)]
"""A segment of a log is never removed."""

FLINK: list[dict[str, Any]] = json.loads((GOLDEN / "flink.json").read_text("utf-8"))

IDLE_TIMERS = [case for case in FLINK if case["kind"] == "idle_timer"]

COUNTED_OTHERWISE = "clock_starts_at_first_quiet_look_not_at_event"

WITHOUT_STEPS = "zero_timeout_refused"

TIMERS = [c for c in IDLE_TIMERS if c["name"] not in {COUNTED_OTHERWISE, WITHOUT_STEPS}]

Events = list[tuple[int, int, int]]

steps = st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 6))

"""A segment, the time of its event, and how long after the step before."""


def take_step(clocks: SegmentClocks, step: dict[str, Any]) -> list[Outcome]:
    """Take one step of Jet's; segments are numbered as they are added."""
    now = step["now"]
    match step["op"]:
        case "add":
            for n in range(step["n"]):
                clocks.add(n, now=now)
            return []
        case "event":
            return clocks.events({step["partition"]: step["time"]}, now=now)
        case _:
            return clocks.events({}, now=now)


def find_idle_checks(case: dict[str, Any]) -> tuple[list[bool], list[bool]]:
    """Return the results of a case's checks for one segment added at 0, and Flink's."""
    clocks = SegmentClocks(case["timeout"] + 1, 0)
    now = 0
    idle_checks = []
    expected = []
    clocks.add(0, now=now)
    for step in case["steps"]:
        if step["op"] == "advance":
            now += step["by"]
        elif step["op"] == "activity":
            clocks.events({0: 0}, now=now)
        else:
            clocks.events({}, now=now)
            idle_checks.append(clocks.is_idle)
            expected.append(step["expect"]["idle"])
    return idle_checks, expected


def test_the_files_of_cases_are_whole() -> None:
    """A case that is lost from a file is missed."""
    assert (len(SOURCES), len(IDLE_TIMERS), len(TIMERS)) == (7, 7, 5)


@pytest.mark.parametrize("case", JET, ids=itemgetter("name"))
def test_times_match_watermarks_of_jet(case: dict[str, Any]) -> None:
    clocks = SegmentClocks(case["idle_timeout"], case["lag"])

    for step in case["steps"]:
        assert take_step(clocks, step) == step["expect"]


@pytest.mark.parametrize("case", TIMERS, ids=itemgetter("name"))
def test_segment_is_idle_when_flink_says_so(case: dict[str, Any]) -> None:
    """Idle is: silent for more than Flink's timeout, which is our timeout less 1 ms."""
    idle_checks, expected = find_idle_checks(case)

    assert idle_checks == expected


def test_silence_begins_at_the_last_event() -> None:
    """An event at 4, a look every 5, a timeout of 10: idle at 15, where Flink sees it at 25."""
    (case,) = (case for case in IDLE_TIMERS if case["name"] == COUNTED_OTHERWISE)

    ours = [False, False, True, True, True]
    flinks = [False, False, False, False, True]
    assert find_idle_checks(case) == (ours, flinks)


@pytest.mark.parametrize(("idle_timeout_ms", "delay_ms"), [(-1, 0), (0, -1)])
def test_a_duration_below_zero_is_refused(idle_timeout_ms: int, delay_ms: int) -> None:
    with pytest.raises(Rejected, match=r"_ms must be 0 or more, not -1"):
        SegmentClocks(idle_timeout_ms, delay_ms)


@given(st.lists(steps), st.integers(0, 9))
def test_time_is_the_least_newest_minus_the_delay(events: Events, delay_ms: int) -> None:
    clocks = SegmentClocks(0, delay_ms)
    now = 0
    newest: dict[int, int] = {}
    for segment in range(3):
        clocks.add(segment, now=0)
    for segment, time, elapsed_ms in events:
        now += elapsed_ms
        newest[segment] = max(time, newest.get(segment, time))
        clocks.events({segment: time}, now=now)
        clocks.events({}, now=now)

    assert clocks.time == (min(newest.values()) - delay_ms if len(newest) == 3 else None)


@given(st.lists(steps, min_size=1), st.integers(0, 9), st.integers(0, 9))
def test_times_rise_until_idle(events: Events, idle_timeout_ms: int, delay_ms: int) -> None:
    clocks = SegmentClocks(idle_timeout_ms, delay_ms)
    now = 0
    times = []
    for segment, time, elapsed_ms in events:
        now += elapsed_ms
        quiet = clocks.events({}, now=now)
        assert "idle" not in quiet[:-1]
        found = clocks.events({segment: time}, now=now)
        assert "idle" not in found
        times += [time for time in (*quiet, *found) if isinstance(time, int)]

    assert times == sorted(set(times))


writes = st.tuples(st.integers(0, 2), st.integers(0, 9))
turns = st.lists(st.tuples(st.lists(writes, max_size=3), st.sets(st.integers(1, 2)), writes))
"""Records written before a look, transactions that end then, and a record written amid the look."""


@given(turns)
def test_records_beyond_the_ends_are_within_the_delay(
    turns: list[tuple[list[tuple[int, int]], set[int], tuple[int, int]]],
) -> None:
    """Records may be written between the two questions. An open newest record is not idle."""
    partition = Partition([LATER // 2], [0])
    newest = NewestTimes()
    for before, ended_producers, amid in turns:
        for write in before:
            partition.write(*write)
        for producer in ended_producers:
            partition.finish(producer, commits=True)
        end = partition.end
        partition.write(*amid)
        stamp = partition.newest()
        times = newest.take({0: stamp}, {0: end}, now=LATER)
        time = times.get(0)
        assert time is None or min(partition.times[end:]) >= time - DELAY
        assert stamp.offset < end or 0 in times

    for producer in (1, 2):
        partition.finish(producer, commits=True)
    stamps = {0: partition.newest()}
    assert newest.take(stamps, {0: partition.end}, now=LATER) == {0: max(partition.times)}
    assert newest.take(stamps, {0: partition.end}, now=LATER) == {}


def test_future_record_counts_as_present() -> None:
    """It counts at each look with new records, so its segment neither holds nor jumps ahead."""
    newest = NewestTimes()
    ahead = {0: Stamp(900, 0)}

    assert newest.take(ahead, {0: 1}, now=100) == {0: 100}
    assert newest.take(ahead, {0: 1}, now=200) == {}
    assert newest.take(ahead, {0: 2}, now=300) == {0: 300}
    assert newest.take({0: Stamp(950, 2)}, {0: 3}, now=1000) == {0: 950}
