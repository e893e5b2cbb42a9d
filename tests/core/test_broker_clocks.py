"""Broker stamps, against a model of a partition and its leader."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.observing import BrokerClocks, BrokerLook, Stamp

SKEW, REPLICATION, LAG = 7, 30, 40
"""How far stamps go back, how long replication takes at most, and what a look allows for both."""

ORDER = ("clock", "replicas", "high", "ends", "newest")
"""What a look asks, one after the other."""

Happening = tuple[str, int, int]
"""What happens, in which partition, and a number."""

happenings = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["append", "open", "replicate", "create"]), *[st.integers(0, 2)] * 2
        ),
        st.tuples(
            st.sampled_from(["commit", "abort", "alone", "together"]), *[st.integers(0, 2)] * 2
        ),
        st.tuples(st.just("pass"), st.just(0), st.integers(1, 40)),
        st.tuples(st.just("ask"), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@dataclass
class Written:
    """A record or transaction marker, appended `at` the true clock."""

    at: int
    stamp: int
    transaction: int | None = None
    is_marker: bool = False
    is_aborted: bool = False


@dataclass
class Leader:
    """A partition at its leader, whose clock is up to `SKEW` behind."""

    records: list[Written] = field(default_factory=list)
    high: int = 0
    is_alone: bool = False
    """Whether too few replicas are in sync: the high watermark stands."""

    def end(self) -> int:
        """Return the end of a read_committed consumer."""
        undecided = [self.high]
        for number in (0, 1, 2):
            last = self._last_marker(number)
            undecided += [
                o for o, r in enumerate(self.records) if r.transaction == number and o > last
            ]
        return min(undecided)

    def _last_marker(self, transaction: int) -> int:
        found = [
            o
            for o, r in enumerate(self.records[: self.high])
            if r.is_marker and r.transaction == transaction
        ]
        return max(found, default=-1)

    def decide(self, transaction: int, now: int, *, aborts: bool) -> None:
        for record in reversed(self.records):
            if record.transaction == transaction:
                if record.is_marker:
                    break
                record.is_aborted = aborts
        self.records.append(Written(now, now, transaction, is_marker=True))

    def pass_to(self, now: int) -> None:
        """Replicate what has waited until `now`."""
        old = sum(record.at <= now - REPLICATION for record in self.records)
        if not self.is_alone:
            self.high = max(self.high, old)

    def newest(self) -> Stamp | None:
        """Return the first record with the largest stamp, if it is replicated."""
        largest = max((record.stamp for record in self.records), default=0)
        return self.first_at(largest)

    def first_at(self, time: int) -> Stamp | None:
        """Return the first record stamped then or later, if it is replicated."""
        stamps = (Stamp(r.stamp, o) for o, r in enumerate(self.records) if r.stamp >= time)
        found = next(stamps, None)
        return None if found is None or found.offset >= self.high else found


@dataclass
class Topic:
    """A topic that is written to while it is observed; what happens up to `ask` comes first."""

    course: Iterator[Happening]
    now: int = 1000
    leaders: dict[int, Leader] = field(default_factory=lambda: {0: Leader()})
    is_over: bool = False

    def look(self) -> BrokerLook:
        found = {}
        for what in ORDER:
            self._happen()
            found[what] = getattr(self, f"_ask_{what}")()
        recent = {p: each.first_at(found["clock"] - SKEW) for p, each in self.leaders.items()}
        return BrokerLook(
            found["clock"],
            found["replicas"],
            found["high"],
            found["ends"],
            found["newest"],
            {p: each for p, each in recent.items() if each},
        )

    def _ask_clock(self) -> int:
        return self.now

    def _ask_replicas(self) -> set[int]:
        return {p for p, leader in self.leaders.items() if leader.is_alone}

    def _ask_high(self) -> dict[int, int]:
        return {p: leader.high for p, leader in self.leaders.items()}

    def _ask_newest(self) -> dict[int, Stamp]:
        found = {p: leader.newest() for p, leader in self.leaders.items()}
        return {p: newest for p, newest in found.items() if newest}

    def _ask_ends(self) -> dict[int, int]:
        return {p: leader.end() for p, leader in self.leaders.items()}

    def _happen(self) -> None:
        for what, partition, number in self.course:
            if what == "ask":
                return
            self._happens(what, partition, number)
        self.is_over = True

    def _happens(self, what: str, partition: int, number: int) -> None:
        if what == "create":
            self.leaders.setdefault(partition, Leader())
        leader = self.leaders.get(partition)
        if leader is None:
            return
        match what:
            case "append":
                leader.records.append(Written(self.now, self.now - number * SKEW // 2))
            case "open":
                leader.records.append(Written(self.now, self.now, number))
            case "commit" | "abort":
                leader.decide(number, self.now, aborts=what == "abort")
            case "replicate" if not leader.is_alone:
                leader.high = min(leader.high + number + 1, len(leader.records))
            case "alone" | "together":
                leader.is_alone = what == "alone"
            case "pass":
                self.now += number
        for each in self.leaders.values():
            each.pass_to(self.now)


def broken(topic: Topic) -> list[tuple[int, int, int]]:
    """Observe a topic until it is over; return (partition, offset, time) of what broke a claim.

    A claim is that no record at or above the end, then or later, has a stamp below the time. In a
    partition that is yet to come, no record has one below the least time.
    """
    clocks = BrokerClocks(skew_ms=SKEW, lag_ms=LAG)
    claims: list[tuple[dict[int, int], dict[int, int]]] = []
    while not topic.is_over:
        look = topic.look()
        clocks.take(look)
        claims.append((dict(look.ends), clocks.times()))
    found = []
    for ends, times in claims:
        least = min(times.values()) if len(times) == len(ends) else 0
        for partition, leader in topic.leaders.items():
            time = times.get(partition, 0) if partition in ends else least
            for offset, record in enumerate(leader.records):
                is_claimed = offset >= ends.get(partition, 0) and record.stamp < time
                if is_claimed and not record.is_marker and not record.is_aborted:
                    found.append((partition, offset, time))
    return found


@given(happenings)
def test_no_record_that_comes_into_sight_later_has_a_stamp_below_the_time(
    course: list[Happening],
) -> None:
    """However records are appended, replicated, committed and aborted amid a look."""
    assert broken(Topic(iter(course))) == []


def seen(
    now: int, high: int, end: int, newest: Stamp | None = None, *, alone: bool = False
) -> BrokerLook:
    stamps = {} if newest is None else {0: newest}
    return BrokerLook(now, {0} if alone else set(), {0: high}, {0: end}, stamps)


def times(*looks: BrokerLook) -> list[int | None]:
    clocks, found = BrokerClocks(skew_ms=10, lag_ms=500), []
    for look in looks:
        clocks.take(look)
        found.append(clocks.times().get(0))
    return found


def test_a_partition_advances_by_stamps_by_the_clock_and_through_transactions() -> None:
    """A stamp counts once the end has passed its record; an open transaction stops the clock."""
    assert times(
        seen(1000, 4, 4, Stamp(900, 3)),  # written before it was observed: only the clock counts
        seen(2000, 6, 6, Stamp(1990, 5)),
        seen(3000, 8, 6, Stamp(2990, 7)),
        seen(4000, 9, 6, Stamp(3990, 8)),
        seen(5000, 11, 8, Stamp(4990, 10)),
        seen(9000, 12, 12, Stamp(5000, 11)),
    ) == [500, 1980, 1980, 1980, 2980, 8500]


def test_the_clock_does_not_count_while_replicas_are_missing_nor_at_the_next_look() -> None:
    """Metadata may say that they are back before the high watermark has moved."""
    assert times(seen(1000, 4, 4, alone=True), seen(2000, 4, 4), seen(3000, 4, 4)) == [
        None,
        None,
        2500,
    ]


def test_a_stamp_from_the_future_counts_as_the_present() -> None:
    """A leader whose clock is ahead; records of partitions to come are stamped from now on."""
    assert times(seen(1000, 4, 4), seen(2000, 5, 5, Stamp(9000, 4))) == [500, 1990]


def test_of_a_long_transaction_few_stamps_are_kept() -> None:
    """Memory is bounded, and the time falls behind by a few looks at most."""
    clocks = BrokerClocks(skew_ms=0, lag_ms=10**6)
    clocks.take(seen(0, 0, 0))
    for look in range(10_000):
        clocks.take(seen(look, look + 1, 0, Stamp(look, look)))
    clocks.take(seen(10_000, 10_000, 9_900, Stamp(9_999, 9_999)))

    assert 9_899 - 400 <= clocks.times()[0] <= 9_899
    assert len(clocks._partitions[0].above) <= 64


def test_stamps_in_doubt_are_to_be_read_and_the_newest_read_counts() -> None:
    """New records with smaller stamps than before: the leader changed, and its clock is behind."""
    clocks = BrokerClocks(skew_ms=10, lag_ms=500)
    assert clocks.take(seen(1000, 4, 4, Stamp(995, 3))) == {}
    assert clocks.take(seen(2000, 6, 6, Stamp(1990, 5))) == {}
    assert clocks.times() == {0: 1980}
    for _ in range(2):  # until the range was read
        assert clocks.take(seen(3000, 8, 8, Stamp(1990, 5))) == {0: range(6, 8)}
    clocks.correct(0, 1400)

    assert clocks.times() == {0: 2500}  # by the clock, as all is visible
    assert clocks.take(seen(3100, 10, 9, Stamp(1990, 5))) == {0: range(8, 9)}
    clocks.correct(0, 1500)
    assert clocks.times() == {0: 1490}


def test_a_stamp_below_what_was_noted_by_the_clock_is_in_doubt() -> None:
    """The newest of new records may be theirs, and late all the same."""
    clocks = BrokerClocks(skew_ms=10, lag_ms=500)
    clocks.take(seen(5000, 4, 4))
    clocks.times()

    assert clocks.noted == 4500
    assert clocks.take(seen(5100, 5, 5, Stamp(4499, 4))) == {0: range(4, 5)}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"skew_ms": -1, "lag_ms": 0}, "skew_ms must be 0 or more, not -1"),
        ({"skew_ms": 10, "lag_ms": 9}, r"lag_ms must be at least skew_ms \(10\), not 9"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Rejected, match=sentence):
        BrokerClocks(**options)
