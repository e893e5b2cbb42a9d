"""The time of a Kafka topic whose broker stamps its records, without reading them.

The leader of a partition stamps a record when it appends it (LogAppendTime). Consumers see it
later: once it is replicated, which the *high watermark* tells, and its transaction is committed,
which the *end* of a read_committed consumer tells. So records that come into sight after a moment
may have stamps from before it. Two things bound them:

- **The newest stamp.** Within a partition, stamps go back by `skew_ms` at most. Nothing at or above
  the end has a stamp further below that of a record below the end.
- **The clock.** If the end has reached the high watermark, all that cannot be seen yet still has to
  be replicated. A follower that is not done within one and a half times `replica.lag.time.max.ms`
  is waited for no longer. So what cannot be seen is younger than that: `lag_ms` covers it, together
  with the skew. With fewer replicas in sync than `min.insync.replicas` the high watermark stands
  for as long as that lasts (KIP-966), and the clock tells nothing.

So a look asks for the clock and for the replicas in sync *before* the high watermarks, and for the
ends after these: what is appended amid the look is then younger than the clock, and what was below
the high watermark is below the end. In another order, what happens in between would be left out.
The newest stamps come last: each counts once an end has passed its record, whenever it was asked
for, and so none of a record below the ends is missing among them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from noted_time.observing.newest_times import Stamp
from noted_time.values import Rejected, check_least

MOST_STAMPS = 64
"""How many stamps above the end are remembered of a partition with a long transaction."""


@dataclass(frozen=True, slots=True)
class BrokerLook:
    """What a look found, in the order in which it has to ask.

    `ends` are those of a read_committed consumer. `newest` are the records with the largest stamp,
    `recent` any others; partitions without are left out.
    """

    now: int
    under_replicated: AbstractSet[int]
    high: Mapping[int, int]
    ends: Mapping[int, int]
    newest: Mapping[int, Stamp]
    recent: Mapping[int, Stamp] = field(default_factory=dict)


@dataclass(slots=True)
class _Partition:
    """What is known of a partition.

    Only records from `begin` on count, which were appended while it was observed: older ones may
    have the stamps of producers. `checked` is the offset below which no stamp is in doubt.
    """

    begin: int
    checked: int
    end: int
    time: int | None = None
    clock: int | None = None
    above: deque[Stamp] = field(default_factory=deque)

    def add_stamp(self, record: Stamp) -> None:
        """Remember a stamp until the end has passed its record."""
        if record.offset < self.begin or (self.above and record.offset <= self.above[-1].offset):
            return
        self.above.append(record)
        if len(self.above) > MOST_STAMPS:
            self.above = deque(list(self.above)[::-2][::-1])

    def reach(self, end: int) -> None:
        """Take the stamps below the end."""
        self.end = end
        while self.above and self.above[0].offset < end:
            self.time = self.above.popleft().time


class BrokerClocks:
    """A clock for each partition of a topic with LogAppendTime; times are Unix ms.

    `skew_ms` is how far stamps of one partition, or a broker's clock and this one, may be apart;
    `lag_ms` how old what cannot be seen may be, see above. Raises `Rejected` if `skew_ms` is
    negative or `lag_ms` below it.

    >>> clocks = BrokerClocks(skew_ms=10, lag_ms=500)
    >>> clocks.take(BrokerLook(1000, set(), {0: 5}, {0: 5}, {0: Stamp(200, 4)}))
    {}
    >>> clocks.times()  # nothing has come while it was observed
    {0: 500}
    >>> clocks.take(BrokerLook(2000, set(), {0: 7}, {0: 6}, {0: Stamp(1900, 5)}))
    {}
    >>> clocks.times()  # offset 6 is in an open transaction
    {0: 1890}
    """

    def __init__(self, *, skew_ms: int, lag_ms: int) -> None:
        check_least("skew_ms", skew_ms, 0)
        if lag_ms < skew_ms:
            raise Rejected(f"lag_ms must be at least skew_ms ({skew_ms}), not {lag_ms}")
        self._skew_ms = skew_ms
        self._lag_ms = lag_ms
        self._partitions: dict[int, _Partition] = {}
        self._under_replicated: AbstractSet[int] = frozenset()
        self._now = 0
        self.noted: int | None = None
        """The highest time of the topic so far: the least of all partitions."""

    def take(self, look: BrokerLook) -> dict[int, range]:
        """Record a look; returns the offsets in each partition whose stamps are in doubt.

        They are: records have come into sight, and the newest stamp is not among theirs, or below
        what was `noted`. A leader's clock is behind, or the largest stamp is not a broker's. Until
        the newest of them was given to `correct`, the next look has the same doubt.
        """
        self._now = look.now
        lagging = self._under_replicated | look.under_replicated
        self._under_replicated = look.under_replicated
        doubts = {}
        for number, end in look.ends.items():
            known = self._partitions.setdefault(number, _Partition(end, end, end))
            high, newest = look.high.get(number), look.newest.get(number)
            for record in (newest, look.recent.get(number)):
                if record is not None:
                    known.add_stamp(record)
            known.reach(end)
            has_settled = high is not None and end >= high and number not in lagging
            known.clock = look.now - self._lag_ms if has_settled else None
            if newest is None or end <= known.checked:
                continue
            is_late = self.noted is not None and newest.time < self.noted
            if is_late or newest.offset < known.checked:
                doubts[number] = range(known.checked, end)
            else:
                known.checked = end
        return doubts

    def correct(self, partition: int, newest: int | None) -> None:
        """Continue from the newest stamp that was read up to the end, `None` if there is none.

        It replaces a larger one: from now on, stamps may be as low.
        """
        known = self._partitions[partition]
        known.begin = known.checked = known.end
        known.above.clear()
        if newest is not None:
            known.time = newest

    def times(self) -> dict[int, int]:
        """Return the time of each partition that has one: no record at its end has a lower stamp.

        None is above the clock less the skew, which also holds for partitions that are yet to come.
        """
        times = {}
        for number, known in self._partitions.items():
            stamp = None if known.time is None else min(known.time, self._now) - self._skew_ms
            bounds = [time for time in (stamp, known.clock) if time is not None]
            if bounds:
                times[number] = max(bounds)
        if times and len(times) == len(self._partitions):
            least = min(times.values())
            self.noted = least if self.noted is None else max(least, self.noted)
        return times
