"""A model of a database, Debezium and Kafka Connect, and a judge of all claims by all rows.

The model's connector writes changes in the order of the log, and flushes the offset of the last one
in the topic. In snapshots, and after them until the next commit, its offsets have the worker's
clock, which may be ahead.
"""

import json
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from noted_time_extensions.debezium.commit_times import CommitTimes, ProvenTime

DELAY_MS = 30
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, DELAY_MS - 1)),
        st.tuples(st.just("read"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["flush", "flush_twice"]), st.just(0)),
        st.tuples(st.just("tick"), st.integers(DELAY_MS, 9 * DELAY_MS)),
        st.tuples(st.just("snapshot"), st.integers(0, 3)),
        st.tuples(st.just("short_snapshot"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
    ),
    min_size=10,
    max_size=80,
)


class Change(NamedTuple):
    """A change of the database: its commit's time in ms, and its place in the log."""

    time: int
    lsn: int


class Connector:
    """A connector, its database and its topic."""

    def __init__(self, times: CommitTimes, ahead: int) -> None:
        self.now = 1_000_000
        self.log: list[Change] = []
        self.topic_end = 0  # the changes of the log that are in the topic
        self.snapshot_left = 0
        self._times = times
        self._ahead = ahead
        self._time_us = 0
        self._has_clock = False
        self._was_flushed_with_clock = False

    def commit(self, earlier_by: int) -> None:
        """Commit a change, whose time may be earlier than the time of the commit before."""
        self.now += 1
        self.log.append(Change(self.now - earlier_by, len(self.log) + 1))

    def read(self, count: int) -> None:
        if self.snapshot_left:
            self.snapshot_left -= 1
            self._use_clock()
            return
        for _ in range(count):
            if self.topic_end < len(self.log):
                self._time_us = self.log[self.topic_end].time * 1000
                self._has_clock = False
                self.topic_end += 1

    def flush(self, _: int) -> None:
        self._was_flushed_with_clock = self._has_clock
        offset: dict[str, Any] = {"ts_usec": self._time_us, "lsn_commit": self.topic_end}
        if self.snapshot_left:
            offset["snapshot"] = "initial"
        self._take(json.dumps(offset).encode())

    def flush_twice(self, _: int) -> None:
        self.flush(0)
        self.flush(0)

    def tick(self, ms: int) -> None:
        self.now += ms

    def snapshot(self, reads: int) -> None:
        """Begin a snapshot of so many reads; the mark is flushed at once."""
        self.snapshot_left = reads + 1
        self._use_clock()
        self.flush(0)

    def short_snapshot(self, _: int) -> None:
        """Take an incremental snapshot between two flushes, after a commit's offset."""
        if not (self._has_clock or self._was_flushed_with_clock or self.snapshot_left):
            self._use_clock()

    def delete(self, _: int) -> None:
        """Delete the offset; the next one is of a snapshot."""
        self._take(None)
        self.snapshot(0)

    def has_missing(self, time: int, end: int) -> bool:
        """Return whether a change before a time is not below an end of the topic."""
        return any(change.time < time for change in self.log[end:])

    def _use_clock(self) -> None:
        self._time_us = (self.now + self._ahead) * 1000
        self._has_clock = True

    def _take(self, value: bytes | None) -> None:
        self._times.take(b'["shop", {"server": "sales"}]', value, self.now)


@given(steps=STEPS, ahead=st.integers(0, 500), clock_behind=st.integers(0, 40))
def test_no_claim_is_false(steps: list[tuple[str, int]], ahead: int, clock_behind: int) -> None:
    """All changes before a claim are in the topic when the claim is made.

    The observer's clock may be behind, and the worker's ahead.
    """
    times = CommitTimes("sales.orders", ["shop"], delay_ms=DELAY_MS)
    times.finish_first_read()
    connector = Connector(times, ahead)
    claims: list[tuple[int, int]] = []
    for name, number in steps:
        getattr(connector, name)(number)
        claim = times.judge(connector.now - clock_behind)
        if isinstance(claim, ProvenTime):
            claims.append((claim.time, connector.topic_end))
            assert claim.time <= connector.now - clock_behind - DELAY_MS

    assert [time for time, end in claims if connector.has_missing(time, end)] == []
    assert times.steps_back == 0
