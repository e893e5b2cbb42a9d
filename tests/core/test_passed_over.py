"""Notes of observers that skip records."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from noted_time.observing import PassedOver, Passes, SegmentClocks
from noted_time.values import LARGEST_TIME

DELAY = 5
IDLE_MS = 20
AHEAD_MS = 30

Row = int | str | None  # a time, text that cannot be read, or a tombstone
Turns = list[tuple[list[tuple[int, Row]], int, bool]]

# a partition, and by how much a record is after the clock less the delay, or another record
writes = st.tuples(st.integers(0, 1), st.integers(-DELAY, AHEAD_MS) | st.sampled_from(["", None]))

# the records written before a look, its duration, and whether the observer restarts
turn = st.tuples(st.lists(writes, max_size=3), st.sampled_from([1, IDLE_MS]), st.booleans())
turns = st.lists(turn, max_size=14)


START = {0: 0, 1: 0}
"""The offsets at which the reading of the partitions begins."""


@dataclass
class Observer:
    """A process that reads two partitions; at its start, the newest record of each once more."""

    log: dict[int, list[Row]]
    now: int
    passes: Passes | None = None
    position: dict[int, int] = field(default_factory=START.copy)

    def __post_init__(self) -> None:
        self.clocks = SegmentClocks(IDLE_MS, DELAY)
        self.passed = PassedOver(self.passes, now=self.now)
        for n, end in self.position.items():
            rows = [offset for offset in range(end) if self.log[n][offset] is not None]
            [*self.read(n, rows[-1:], self.now)]

    def read(self, n: int, offsets: Iterable[int], now: int) -> Iterator[int]:
        """Return the times of records that can be read; no time may be ahead."""
        for offset in offsets:
            row = self.log[n][offset]
            if isinstance(row, int) and row <= now:
                self.passed.end(n)
                yield row
            elif row is not None:
                until = row if isinstance(row, int) else LARGEST_TIME
                self.passed.add(n, offset, now=now, until=until)

    def look(self, now: int) -> list[int]:
        """Read all new records, and return the lowers."""
        newest: dict[int, int | None] = {}
        for n, rows in self.log.items():
            self.clocks.add(n, now=now)
            times = sorted(self.read(n, range(self.position[n], len(rows)), now))
            newest |= {n: times[-1]} if times else {}
            self.position[n] = len(rows)
        active = dict.fromkeys(self.passed.find_active(now=now))
        outcomes = self.clocks.events({**active, **newest}, now=now)
        return [outcome for outcome in outcomes if outcome != "idle"]


def play(turns: Turns) -> tuple[Observer, int, list[tuple[int, int]]]:
    """Return the observer, the clock, and each lower that passed a partition, with its time."""
    observer = Observer({0: [], 1: []}, 1000)
    now = 1000
    wrong = []
    for new_rows, took, restarts in turns:
        now += took
        for n, step in new_rows:
            observer.log[n].append(now - DELAY + step if isinstance(step, int) else step)
        if restarts:
            observer = Observer(observer.log, now, position=observer.position)
        lowers = observer.look(now)
        for rows in observer.log.values():
            records = [row for row in rows if row is not None]
            last = records[-1] if records else 0
            if not isinstance(last, int) or last > now:
                times = [row for row in rows if isinstance(row, int) and row <= now]
                last_time = max(times, default=0) - DELAY
                wrong += [(lower, last_time) for lower in lowers if lower > last_time]
    return observer, now, wrong


@given(turns)
@example([([(0, ""), (1, 0)], 1, False), ([(1, 0)], 1, True), ([(1, 0)], IDLE_MS, False)])
def test_no_mark_passes_a_partition_with_a_skipped_record(turns: Turns) -> None:
    """Later rows may be as old as the skipped record, also after restarts."""
    _, _, wrong = play(turns)

    assert wrong == []


@given(turns)
def test_the_printed_option_lets_time_advance(turns: Turns) -> None:
    """Time advances within the idle timeout, although such records still arrive."""
    observer, now, _ = play(turns)
    facts = observer.passed.list_facts(now=now)
    passes: dict[int, int | None] = {}
    for fact in facts:
        passes[fact.segment] = fact.offset if fact.count == 1 else None
    observer = Observer(observer.log, now, passes, observer.position)
    observer.look(now)
    free = min({0, 1} - passes.keys(), default=0)
    now += IDLE_MS
    for n, last in passes.items():
        observer.log[n] += [""] if last is None else []
    observer.log[free].append(now)

    assert observer.look(now)[:1] == [now - DELAY]
