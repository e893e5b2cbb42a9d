"""What the controller counts, for Prometheus."""

from __future__ import annotations

from collections import Counter as Counted
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.port import Batch

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The counters of one process; what streams say of themselves is read when asked for."""

    def __init__(self) -> None:
        """Begin at zero, in a registry of its own."""
        self.registry = CollectorRegistry()
        self.notes = Counter(
            "noted_time_notes", "Notes answered, by status", ["status"], registry=self.registry
        )
        self.notes.labels("accepted")  # shown from the start
        # Plain numbers on the hot path, a microsecond a note less; `count_notes` hands them on.
        self.answered: Counted[str] = Counted()
        self.marks = Counter("noted_time_marks", "Marks appended", registry=self.registry)
        self.left_out = Counter(
            "noted_time_left_out", "Writers left out by timeout", registry=self.registry
        )
        self.commit_seconds = Histogram(
            "noted_time_commit_seconds",
            "Time of one group commit",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.commit_members = Histogram(
            "noted_time_commit_members",
            "Writers written by one group commit",
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
            registry=self.registry,
        )
        self.failed_commits = Counter(
            "noted_time_failed_commits", "Group commits that failed", registry=self.registry
        )
        self.streams = Gauge("noted_time_streams", "Streams", registry=self.registry)
        self.long_polls = Gauge(
            "noted_time_long_polls", "Readers waiting for marks", registry=self.registry
        )
        self.lower = Gauge(
            "noted_time_lower", "Lower of the last mark", ["stream", "key"], registry=self.registry
        )
        self.holders = Gauge(
            "noted_time_holders", "Members that hold time back", ["stream"], registry=self.registry
        )
        self.members = Gauge(
            "noted_time_members", "Members of a stream", ["stream"], registry=self.registry
        )

    def count_notes(self) -> None:
        """Add the notes answered since the last time to what is shown."""
        answered, self.answered = self.answered, Counted()
        for status, count in answered.items():
            self.notes.labels(status).inc(count)

    @contextmanager
    def commit(self, batch: Batch) -> Iterator[None]:
        """Time one commit, and count what it made durable."""
        begun = perf_counter()
        try:
            yield
        except Exception:
            self.failed_commits.inc()
            raise
        self.commit_seconds.observe(perf_counter() - begun)
        self.commit_members.observe(len(batch.members))
        if batch.marks:
            self.marks.inc(len(batch.marks))
