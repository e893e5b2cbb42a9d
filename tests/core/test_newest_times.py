"""What the newest timestamps promise, with transactions that overlap."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from noted_time.wing import NewestTimes, Stamp

DELAY = 5
LATER = 10_000


@dataclass
class Partition:
    """One to which three producers write in transactions, or without: the fourth."""

    times: list[int] = field(default_factory=lambda: [LATER // 2])
    open: dict[int, int] = field(default_factory=dict)

    def write(self, producer: int, step: int) -> None:
        """Append a record that is older than the newest by the delay at most."""
        if producer < 3:
            self.open.setdefault(producer, len(self.times))
        self.times.append(max(self.times) - DELAY + step)

    def end(self) -> int:
        """Return where the visible records end."""
        return min(self.open.values(), default=len(self.times))

    def newest(self) -> Stamp:
        """Return the record with the largest timestamp."""
        return Stamp(max(self.times), self.times.index(max(self.times)))


writes = st.tuples(st.integers(0, 3), st.integers(0, 9))
"""A producer, and by how much its record is above the oldest that it may be."""

turns = st.lists(st.tuples(st.lists(writes, max_size=3), st.sets(st.integers(0, 2)), writes))
"""What is written before a look, which transactions end, and what is written amid the look."""


@given(turns)
def test_no_record_beyond_the_ends_is_older_by_more_than_the_delay(
    turns: list[tuple[list[tuple[int, int]], set[int], tuple[int, int]]],
) -> None:
    """Whatever is written between the two questions; and an open newest record is not idle."""
    partition, newest = Partition(), NewestTimes()
    for before, ended, amid in turns:
        for write in before:
            partition.write(*write)
        for producer in ended:
            partition.open.pop(producer, None)
        end = partition.end()
        partition.write(*amid)
        stamp = partition.newest()
        found = newest.take({0: stamp}, {0: end}, now=LATER)
        time = found.get(0)
        assert time is None or min(partition.times[end:]) >= time - DELAY
        assert stamp.offset < end or 0 in found

    partition.open.clear()
    looks = [
        newest.take({0: partition.newest()}, {0: partition.end()}, now=LATER) for _ in range(2)
    ]
    assert looks == [{0: max(partition.times)}, {}]


def test_a_record_from_the_future_counts_as_one_of_the_present() -> None:
    """At each look that finds new records, so it neither holds its segment nor hurries it."""
    newest, ahead = NewestTimes(), {0: Stamp(900, 0)}

    looks = [newest.take(ahead, {0: end}, now=now) for now, end in ((100, 1), (200, 1), (300, 2))]
    assert looks == [{0: 100}, {}, {0: 300}]
    assert newest.take({0: Stamp(950, 2)}, {0: 3}, now=1000) == {0: 950}
