"""Notes of observers while transactions are open."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.observing import NewestTimes, OpenTransactions, Outcome, SegmentClocks, Stamp
from noted_time.values import LogFact

DELAY = 5
IDLE_MS = 20
LATER = 10_000

MARKER = -1
"""The producer of a marker that ends a transaction."""


@dataclass
class Partition:
    """Records by offset, with time and producer; producers from 1 on write in transactions."""

    times: list[int] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)

    def write(self, producer: int, step: int) -> None:
        """Append a record that is at most the delay older than the newest."""
        if producer:
            self.open.setdefault(producer, len(self.times))
        self.times.append(max(self.times, default=1000) - DELAY + step)
        self.producers.append(producer)

    def finish(self, producer: int, *, commits: bool) -> None:
        if producer in self.open:
            begin = self.open.pop(producer)
            if not commits:
                for offset in range(begin, len(self.times)):
                    if self.producers[offset] == producer:
                        self.aborted.add(offset)
            self.times.append(max(self.times))
            self.producers.append(MARKER)

    @property
    def high(self) -> int:
        return len(self.times)

    @property
    def end(self) -> int:
        return min(self.open.values(), default=len(self.times))

    def newest(self) -> Stamp:
        return Stamp(max(self.times), self.times.index(max(self.times)))

    def rows(self, begin: int, end: int) -> list[int]:
        """Return the times of the records there that are not aborted."""
        times = []
        for offset in range(begin, end):
            if self.producers[offset] != MARKER and offset not in self.aborted:
                times.append(self.times[offset])
        return times


def begin_at_zero() -> list[int]:
    """Return the offsets at which the reading of two partitions begins."""
    return [0, 0]


@dataclass
class ByField:
    """An observer that reads records, not always all."""

    position: list[int] = field(default_factory=begin_at_zero)
    transactions: OpenTransactions = field(default_factory=OpenTransactions)

    def look(
        self, partitions: list[Partition], high: dict[int, int], lag: int
    ) -> dict[int, int | None]:
        newest: dict[int, int | None] = {}
        for n, partition in enumerate(partitions):
            until = max(self.position[n], partition.end - lag)
            times = partition.rows(self.position[n], until)
            self.position[n] = until
            if times:
                newest[n] = max(times)
        active = self.transactions.find_active(high, dict(enumerate(self.position)))
        return {**dict.fromkeys(active), **newest}


@dataclass
class ByTimestamp:
    """An observer that reads none; markers and aborted records count."""

    newest: NewestTimes = field(default_factory=NewestTimes)
    transactions: OpenTransactions = field(default_factory=OpenTransactions)

    def look(
        self, partitions: list[Partition], high: dict[int, int], _: int
    ) -> dict[int, int | None]:
        ends: dict[int, int] = {}
        stamps: dict[int, Stamp] = {}
        for n, partition in enumerate(partitions):
            ends[n] = partition.end
            if partition.times:
                stamps[n] = partition.newest()
        active = self.transactions.find_active(high, ends)
        return self.newest.take(stamps, ends, now=LATER, active=active)


writes = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 40))
"""A partition, a producer, and by how much its record is above the oldest that it may be."""

ends = st.tuples(st.integers(0, 1), st.integers(1, 2), st.booleans())
"""A partition, a producer, and whether it commits."""

turns = st.lists(
    st.tuples(
        st.lists(writes, max_size=3),
        st.lists(ends, max_size=2),
        st.lists(writes, max_size=1),
        st.integers(1, 30),
        st.integers(0, 1),
    ),
    max_size=12,
)
"""Writes and ends before a look, writes amid it, its duration, and the number of unread records."""


Writes = list[tuple[int, int, int]]
Turns = list[tuple[Writes, list[tuple[int, int, bool]], Writes, int, int]]
Way = Callable[[], ByField | ByTimestamp]


def find_passed_times(turns: Turns, way: Way) -> list[int]:
    """Return the times of records that a mark passed while they were hidden."""
    partitions = [Partition(), Partition()]
    passed_records = set[tuple[int, int]]()
    observer = way()
    clocks = SegmentClocks(IDLE_MS, DELAY)
    now = 0
    lower = -1
    first_lowers: dict[tuple[int, int], int] = {}
    for before, ended_transactions, amid, took, lag in turns:
        _write(partitions, before)
        for partition, producer, commits in ended_transactions:
            partitions[partition].finish(producer, commits=commits)
        now += took
        high = {n: partition.high for n, partition in enumerate(partitions)}
        for n in (0, 1):
            clocks.add(n, now=now)
        _write(partitions, amid)
        hidden_records = list[tuple[int, int]]()
        for n, hiding_partition in enumerate(partitions):
            for offset in range(hiding_partition.end, high[n]):
                hidden_records.append((n, offset))
                first_lowers.setdefault((n, offset), lower)  # later ones are late
        for outcome in clocks.events(observer.look(partitions, high, lag), now=now):
            if outcome != "idle":
                lower = max(lower, outcome)
        for n, offset in hidden_records:
            time = partitions[n].times[offset] + DELAY
            if first_lowers[n, offset] <= time < lower:
                passed_records.add((n, offset))
    passed_times = []
    for n, offset in sorted(passed_records):
        passed_times += partitions[n].rows(offset, offset + 1)
    return passed_times


def _write(partitions: list[Partition], records: Writes) -> None:
    for partition, producer, step in records:
        partitions[partition].write(producer, step)


@pytest.mark.parametrize("way", [ByField, ByTimestamp])
@given(turns=turns)
def test_no_mark_passes_an_open_transaction(way: Way, turns: Turns) -> None:
    """Its partition may have no visible record for longer than the idle timeout."""
    assert find_passed_times(turns, way) == []


def test_idle_timeout_begins_once_all_records_are_read() -> None:
    clocks = SegmentClocks(IDLE_MS, DELAY)
    transactions = OpenTransactions()
    clocks.events({0: 100, 1: 200}, now=0)

    def look(read_offset: int, now: int) -> list[Outcome]:
        active = transactions.find_active({0: 9, 1: 4}, {0: read_offset, 1: 4})
        return clocks.events({1: 300, **dict.fromkeys(active)}, now=now)

    assert [look(4, 50), look(9, 60), look(9, 79), look(9, 80)] == [[], [], [], [295]]


def test_open_transaction_keeps_its_first_seen_time() -> None:
    """A first open offset that moves belongs to another transaction."""
    transactions = OpenTransactions()
    looks = [({0: 9, 1: 8}, {0: 4, 1: 8}, 100), ({0: 12, 1: 8}, {0: 4, 1: 7}, 200)]
    looks += [({0: 12, 1: 8}, {0: 6, 1: 7}, 300), ({0: 12, 1: 8}, {0: 12, 1: 8}, 400)]

    outcomes = [transactions.take(high, ends, now=now) for high, ends, now in looks]
    first = LogFact("open_transaction", 0, 4, 100)
    second = LogFact("open_transaction", 1, 7, 200)
    third = LogFact("open_transaction", 0, 6, 300)
    assert outcomes == [(first,), (first, second), (second, third), ()]
