"""Derives the time of a Kafka topic with broker timestamps, without reading its records.

The leader of a partition stamps a record when it appends it (LogAppendTime). Consumers see the
record once it is replicated (below the *high watermark*) and its transaction is committed (below
the *end* of a read_committed consumer). So later records may have earlier stamps, within two
bounds:

- **The newest stamp.** Within a partition, stamps go back by at most `skew_ms`.
- **The clock.** If the end has reached the high watermark, all invisible records are still being
  replicated. A follower that needs more than one and a half times `replica.lag.time.max.ms` is
  removed from the replicas in sync. Invisible records are therefore younger than that; `lag_ms`
  must cover this time and the skew. With fewer replicas in sync than `min.insync.replicas`, the
  high watermark does not advance (KIP-966), and the clock bounds nothing.

A poll must read in this order:

- The clock and the replicas in sync come first, so that records appended later are younger.
- The high watermarks come next, then the ends.
- The newest stamps come last, so that no stamp of a record below the ends is missing. A stamp
  counts once the end has passed its record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from noted_time.observing.newest_times import Stamp
from noted_time.values import Rejected, check_least

MOST_STAMPS = 64


@dataclass(frozen=True, slots=True)
class BrokerLook:
    """The result of a poll, in the order of reading; `ends` are a read_committed consumer's."""

    now: int
    under_replicated: AbstractSet[int]
    high: Mapping[int, int]
    ends: Mapping[int, int]
    newest: Mapping[int, Stamp]
    recent: Mapping[int, Stamp] = field(default_factory=dict)


@dataclass(slots=True)
class _Partition:
    """Before `begin`, records may have producers' stamps; below `checked`, stamps are reliable."""

    begin: int
    checked: int
    end: int
    time: int | None = None
    clock: int | None = None
    above: deque[Stamp] = field(default_factory=deque)

    def add_stamp(self, record: Stamp) -> None:
        if record.offset < self.begin or (self.above and record.offset <= self.above[-1].offset):
            return
        self.above.append(record)
        if len(self.above) > MOST_STAMPS:
            self.above = deque(list(self.above)[::-2][::-1])

    def reach(self, end: int) -> None:
        self.end = end
        while self.above and self.above[0].offset < end:
            self.time = self.above.popleft().time


class BrokerClocks:
    """A clock for each partition of a topic with LogAppendTime, in Unix ms.

    `skew_ms` is the largest difference between stamps of one partition, or between a broker's clock
    and this process's. `lag_ms` is the largest age of invisible records.

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
        """Record a poll, and return the offsets of each partition whose stamps are in doubt.

        New records are in doubt if the newest stamp is below `noted` or belongs to an older record:
        the leader's clock is behind, or a producer set the largest stamp. Pass the newest stamp to
        `correct`.
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
        """Continue from the newest stamp read up to the end, even if it is lower."""
        known = self._partitions[partition]
        known.begin = known.checked = known.end
        known.above.clear()
        if newest is not None:
            known.time = newest

    def times(self) -> dict[int, int]:
        """Return the time of each partition; no record at its end has a lower stamp.

        No time is above the clock minus the skew, which bounds future partitions, too.
        """
        times = {}
        for number, known in self._partitions.items():
            stamp = None if known.time is None else min(known.time, self._now) - self._skew_ms
            bounds = [time for time in (stamp, known.clock) if time is not None]
            if bounds:
                times[number] = max(bounds)
        if times and len(times) == len(self._partitions):
            least_time = min(times.values())
            self.noted = least_time if self.noted is None else max(least_time, self.noted)
        return times
