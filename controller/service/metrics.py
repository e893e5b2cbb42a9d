"""What one process counts, for Prometheus; what streams say of themselves is in `exposition`."""

from __future__ import annotations

from collections import Counter as Counted
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from controller.service.limits import Overloaded

if TYPE_CHECKING:
    from controller.store.port import Batch, Leases

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

# a second series for each counter that nobody asks for
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one process, and its gauges as they were last set."""

    def __init__(self) -> None:
        """Begin at zero, in a registry of its own."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.notes = Counter(
            "noted_time_notes", "Notes answered, by status", ["status"], registry=self.registry
        )
        self.notes.labels("accepted")  # shown from the start
        # Plain numbers on the hot path, a microsecond a note less; `count_notes` hands them on.
        self.answered: Counted[str] = Counted()
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
        self._overloaded = Counter(
            "noted_time_overloaded",
            "Requests refused because too much waited already",
            registry=self.registry,
        )
        self.streams = self._gauge("noted_time_streams", "Streams")
        self.long_polls = self._gauge("noted_time_long_polls", "Readers waiting for marks")
        self.intake = self._gauge(
            "noted_time_intake_requests", "Requests that wait for the next group commit"
        )
        self.service_clock = self._gauge(
            "noted_time_service_clock_seconds", "For how long this controller has served"
        )
        self._ready = self._gauge("noted_time_ready", "1 where the controller serves, else 0")
        self._buckets = Gauge(
            "noted_time_buckets",
            "Buckets of streams, by who has them",
            ["owner"],
            registry=self.registry,
        )
        self._replicas = self._gauge("noted_time_replicas", "Controllers that share the database")

    def show_state(self, leases: Leases, *, ready: bool) -> None:
        """Show whether the controller serves, and who has which buckets.

        What a session has locked that is no controller's is nobody's: no stream in it is served.
        """
        self._ready.set(ready)
        self._replicas.set(leases.replicas)
        this, other = len(leases.mine), sum(map(bool, leases.others.values()))
        counts = {"this": this, "other": other, "nobody": leases.buckets - this - other}
        for owner, count in counts.items():
            self._buckets.labels(owner).set(count)

    def overload(self, message: str) -> Overloaded:
        """Count a request that is refused; returns what to raise."""
        self._overloaded.inc()
        return Overloaded(message)

    def count_notes(self) -> None:
        """Add the notes answered since the last time to what is shown."""
        answered, self.answered = self.answered, Counted()
        for status, count in answered.items():
            self.notes.labels(status).inc(count)

    def committed(self, batch: Batch, took_s: float) -> None:
        """Count one commit, and the writers that it made durable."""
        self.commit_seconds.observe(took_s)
        self.commit_members.observe(batch.records)

    def _gauge(self, name: str, sentence: str) -> Gauge:
        return Gauge(name, sentence, registry=self.registry)
