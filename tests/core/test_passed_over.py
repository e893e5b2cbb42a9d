"""What observers of topics may note while they pass records over."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noted_time.observing import UNREADABLE, LookBack, Outcome, PassedOver, Passes, SegmentClocks
from noted_time.values import LogFact

DELAY, IDLE_MS, AHEAD_MS = 5, 20, 30

Row = int | str | None
"""A record: its time, text that cannot be read, or `None` for a tombstone."""

writes = st.tuples(st.integers(0, 1), st.integers(-DELAY, AHEAD_MS) | st.sampled_from(["", None]))
"""A partition, and by how much a record is after the clock less the delay; or another record."""

turns = st.lists(
    st.tuples(st.lists(writes, max_size=3), st.sampled_from([1, IDLE_MS]), st.booleans()),
    max_size=14,
)
"""What is written before a look, how long it takes, and whether the observer restarts."""

Turns = list[tuple[list[tuple[int, Row]], int, bool]]


def judge(row: Row, now: int) -> int | str:
    """Return what an observer that allows no time ahead makes of a record."""
    if isinstance(row, int):
        return row if row > now else "read"
    return "empty" if row is None else UNREADABLE


@dataclass
class Observer:
    """A process that reads two partitions from a position, with options of its operator."""

    log: dict[int, list[Row]]
    position: dict[int, int]
    now: int
    passes: Passes | None = None
    clocks: SegmentClocks = field(default_factory=lambda: SegmentClocks(IDLE_MS, DELAY))

    def __post_init__(self) -> None:
        self.passed = PassedOver(self.passes, now=self.now)
        look_back = LookBack({}, self.position)
        while ranges := look_back.next_ranges():
            for n, offsets in ranges.items():
                for offset in offsets:
                    look_back.take(n, offset, judge(self.log[n][offset], self.now))  # type: ignore[arg-type]
        look_back.report(self.passed, now=self.now)

    def look(self, now: int) -> list[Outcome]:
        """Read all new records."""
        newest: dict[int, int | None] = {}
        for n, rows in self.log.items():
            self.clocks.add(n, now=now)
            for offset, row in enumerate(rows[self.position[n] :], self.position[n]):
                verdict = judge(row, now)
                if isinstance(row, int) and verdict == "read":
                    self.passed.end(n)
                    newest[n] = max(row, newest.get(n) or row)
                elif isinstance(verdict, int):
                    self.passed.add(n, offset, now=now, until=verdict)
            self.position[n] = len(rows)
        active = dict.fromkeys(self.passed.find_active(now=now))
        return self.clocks.events({**active, **newest}, now=now)


def play(turns: Turns) -> tuple[Observer, int, list[tuple[int, int]]]:
    """Return the observer, the clock, and each lower with the time of a partition it passed."""
    observer, now, wrong = Observer({0: [], 1: []}, {0: 0, 1: 0}, 1000), 1000, []
    for written, took, restarts in turns:
        now += took
        for n, step in written:
            observer.log[n].append(now - DELAY + step if isinstance(step, int) else step)
        if restarts:
            observer = Observer(observer.log, observer.position, now)
        lowers = [each for each in observer.look(now) if each != "idle"]
        for rows in observer.log.values():
            valued = [row for row in rows if row is not None]
            if valued and judge(valued[-1], now) != "read":
                times = [row for row in valued if isinstance(row, int) and row <= now]
                reached = max(times, default=0) - DELAY
                wrong += [(lower, reached) for lower in lowers if lower > reached]
    return observer, now, wrong


@given(turns)
@example([([(0, ""), (1, 0)], 1, False), ([(1, 0)], 1, True), ([(1, 0)], IDLE_MS, False)])
def test_no_mark_passes_a_partition_with_a_skipped_record(turns: Turns) -> None:
    """While the record is its newest, also after restarts; its later rows may be that old."""
    _, _, wrong = play(turns)

    assert wrong == []


@given(turns)
def test_the_printed_option_lets_time_advance(turns: Turns) -> None:
    """Within the idle timeout, although records that the second form passes still come."""
    observer, now, _ = play(turns)
    facts = observer.passed.list_facts(now=now)
    passes = {fact.segment: fact.offset if fact.count == 1 else None for fact in facts}
    observer = Observer(observer.log, observer.position, now, passes)
    observer.look(now)
    free = min({0, 1} - passes.keys(), default=0)
    now += IDLE_MS
    for n, last in passes.items():
        observer.log[n] += [""] if last is None else []
    observer.log[free].append(now)

    assert observer.look(now)[:1] == [now - DELAY]


@pytest.mark.parametrize(("tombstones", "held"), [(0, []), (900, []), (1100, [0])])
def test_a_restart_looks_back_over_1000_tombstones(tombstones: int, held: list[int]) -> None:
    """Beyond them, the newest record counts as passed over."""
    rows: list[Row] = ["", 1000, *[None] * tombstones]
    observer = Observer({0: rows}, {0: len(rows)}, 1000)

    assert observer.passed.find_held(now=1000) == held


def test_a_fact_names_the_records_that_hold_a_segment() -> None:
    """Until the log begins above them; beyond four segments, one option ends all holds."""
    passed = PassedOver({5: None, 6: 2}, now=7)
    for segment, offset in [(0, 8), (0, 9), (5, 1), (6, 2)]:
        passed.add(segment, offset, now=8)
    first = passed.list_facts(now=9)
    for segment in (1, 2, 3):
        passed.add(segment, 0, now=8)
    options = {fact.by for fact in passed.list_facts(now=9)}
    passed.drop_below(dict.fromkeys(range(4), 10))

    by = LogFact("passed", 5, 0, 7, "--pass 5")
    assert first == [by, LogFact("unreadable", 0, 8, 8, count=2)]
    assert (options, passed.list_facts(now=9)) == ({"--pass 5", "--unreadable idle"}, [by])
