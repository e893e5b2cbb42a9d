"""Prometheus metrics of the process and its streams.

A limited number of streams and writers keeps a scrape small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from heapq import nlargest, nsmallest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controller.aggregation.draft import Moment
from controller.aggregation.group_backlog import list_flags
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.views.inspection import DomainReading, StreamReading, read_stream
from controller.aggregation.views.reader_lags import read_groups
from controller.service.limits import Overloaded
from controller.store.port import Leases
from controller.store.records import ChangeSet, StoredMember
from noted_time.values import UNIX_MS

Kind = type[GaugeMetricFamily | CounterMetricFamily]

STREAMS_SHOWN = 1000

NAMES_SHOWN = 1000  # the first that hold back the watermark, and the latest excluded ones

DIGITS_SHOWN = 8  # enough to tell databases apart

NAMED_AFTER_MS = 5000  # a series is kept forever

METRICS_NAMESPACE = "noted_time"

DURATION_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
MEMBERS_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

STREAM_COUNTERS = {
    "excluded": "Writers excluded by their timeout or removed by an operator",
    "fenced": "Notes refused because another process took the writer's name over",
    "lost_marks": "Marks that the controller had shown and its database lost",
}

# a useless second series for each counter
disable_created_metrics()  # type: ignore[no-untyped-call]


refused_calls = Counter(
    "noted_time_refused_calls", "Calls without the right, by outcome", ["outcome"], registry=None
)


class Metrics:
    """The counters and gauges of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(refused_calls)
        common: dict[str, Any] = {"namespace": METRICS_NAMESPACE, "registry": self.registry}
        gauge: Callable[..., Gauge] = partial(Gauge, **common)
        counter: Callable[..., Counter] = partial(Counter, **common)
        histogram: Callable[..., Histogram] = partial(Histogram, **common)
        notes = counter("notes", "Notes answered: accepted, or why not", ["status"])
        self.notes = cache(notes.labels)
        self.notes("accepted")  # the series exists from the start
        self.commit_seconds = histogram(
            "commit_seconds", "Time of one group commit", buckets=DURATION_BUCKETS_S
        )
        self.commit_members = histogram(
            "commit_members", "Writers written by one group commit", buckets=MEMBERS_BUCKETS
        )
        self.failed_commits = counter("failed_commits", "Group commits that wrote nothing")
        self.call_age = gauge(
            "commit_age_seconds", "Age of the oldest commit under way, 0 without one"
        )
        self.clock_steps = counter(
            "clock_steps", "Steps of the wall clock against the monotonic clock, by 5 s or more"
        )
        self._overloaded = counter("overloaded", "Requests refused because too much waits")
        self.streams = gauge("streams", "Streams that this controller owns")
        self.long_polls = gauge("long_polls", "Readers that wait for marks")
        self.intake = gauge("intake_requests", "Requests that wait for the next group commit")
        self.service_clock = gauge(
            "service_clock_seconds", "Service clock, which measures writer timeouts"
        )
        self.certificate_expiry = gauge(
            "certificate_expiry_seconds",
            "Unix time when the TLS certificate expires, 0 without one",
        )
        self._ready = gauge("ready", "1 while the controller serves, 0 while its database is away")
        self._buckets = gauge("buckets", "Buckets of streams by owner", ["owner"])
        self._replicas = gauge("replicas", "Controllers that share the database")
        self._database_info = gauge(
            "database_info", "1; controllers of one database have the same label", ["database"]
        )

    def show_database(self, secret: bytes) -> None:
        """Show which database this is, by a hash of the secret that its controllers share."""
        if not secret:  # an operator deleted it
            return
        self._database_info.labels(sha256(secret).hexdigest()[:DIGITS_SHOWN]).set(1)

    def show_state(self, leases: Leases, *, ready: bool) -> None:
        self._ready.set(ready)
        self._replicas.set(leases.replicas)
        own_count = len(leases.mine)
        other_count = sum(map(bool, leases.others.values()))
        counts = {
            "this": own_count,
            "other": other_count,
            "nobody": leases.buckets - own_count - other_count,
        }
        for owner, count in counts.items():
            self._buckets.labels(owner).set(count)

    def overload(self, message: str) -> Overloaded:
        """Count a refused request, and return the error to raise."""
        self._overloaded.inc()
        return Overloaded(message)

    def count_commit(self, batch: ChangeSet, took_s: float) -> None:
        self.commit_seconds.observe(took_s)
        self.commit_members.observe(len(batch.list_puts(StoredMember)))


class Exposition(Collector):
    """The metrics of one scrape, which any thread may format."""

    def __init__(self, registry: CollectorRegistry, streams: OwnedStreams, now: Moment) -> None:
        """Read the streams in the event loop; a thousand with many waiting members take 20 ms."""
        self._registry = registry
        self._now = now
        self._streams: list[StreamReading] = []
        self._backlogs: list[tuple[list[str], bool]] = []
        for stream in islice(streams, STREAMS_SHOWN):
            self._streams.append(read_stream(stream, stream.served_ms(now)))
            for group, has_backlog in list_flags(stream, now):
                self._backlogs.append(([stream.record.name, group], has_backlog))
        self._not_shown = len(streams) - len(self._streams)
        self._groups, self._groups_not_shown = read_groups(islice(streams, STREAMS_SHOWN))

    def collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()
        yield _build_family(
            "streams_not_shown", "Streams without series, beyond 1000", [([], self._not_shown)]
        )
        yield from self._collect_streams()
        yield from self._collect_domains()
        yield from self._collect_holding_back()
        yield from self._collect_groups()
        sentence = "1 if a reader group has a backlog, else 0"
        yield _build_family("group_backlog", sentence, self._backlogs, ["stream", "group"])

    def _collect_streams(self) -> Iterator[Metric]:
        members: list[tuple[list[str], int]] = []
        excluded_writers: list[tuple[list[str | None], float]] = []
        for stream in self._streams:
            for state, count in stream.members.items():
                members.append(([stream.name, state], count))
            for writer, began_at in stream.out.items():
                excluded_s = max(0, self._now.wall - began_at) / 1000
                excluded_writers.append(
                    ([stream.name, writer, stream.contacts[writer]], excluded_s)
                )
        yield _build_family("members", "Members by state", members, ["stream", "state"])
        for name, sentence in STREAM_COUNTERS.items():
            counts = (([stream.name], getattr(stream, name)) for stream in self._streams)
            yield _build_family(name, sentence, counts, ["stream"], CounterMetricFamily)
        sentence = "How long a writer is excluded, after a mark advanced without it"
        shown_writers = nsmallest(NAMES_SHOWN, excluded_writers, key=itemgetter(1))
        labels = ["stream", "writer", "contact"]
        yield _build_writer_family("excluded_writer_seconds", sentence, shown_writers, labels)

    def _collect_domains(self) -> Iterator[Metric]:
        build = self._build_domain_family
        # the last seq counts all, across restarts and owners
        sentence = "Marks appended since the stream was created"
        yield build("marks", sentence, _find_last_seq, CounterMetricFamily)
        sentence = "Rows that writers reported to have written below the lower"
        yield build("broken_promises", sentence, attrgetter("late_rows"), CounterMetricFamily)
        sentence = "Lower of the last mark, in the stream's time"
        yield build("lower", sentence, _find_lower)
        sentence = "Wall clock minus lower, if that is Unix ms; grows while idle"
        yield build("watermark_lag_seconds", sentence, self._find_lag_s)
        yield build("mark_age_seconds", "Time since the last mark", self._find_age_s)
        sentence = "Members that hold the watermark back"
        yield build("holding_back", sentence, attrgetter("holding_back"))
        sentence = "How long the first of them has held the watermark back"
        yield build("longest_holding_back_seconds", sentence, _find_longest_s)

    def _build_domain_family(
        self,
        name: str,
        sentence: str,
        read_value: Callable[[DomainReading], float | None],
        kind: Kind = GaugeMetricFamily,
    ) -> Metric:
        rows = (
            ([stream, domain.domain], value)
            for stream, domain in _list_domains(self._streams)
            if (value := read_value(domain)) is not None
        )
        return _build_family(name, sentence, rows, ["stream", "domain"], kind)

    def _collect_holding_back(self) -> Iterator[Metric]:
        waits = []
        for stream, domain in _list_domains(self._streams):
            for waiting in domain.longest:
                if waiting.held_back_ms >= NAMED_AFTER_MS:
                    names = [stream, domain.domain, waiting.writer]
                    waits.append((waiting.held_back_ms, names, waiting))
        named_waits = [
            ([*names, waiting.contact], waiting)
            for _, names, waiting in nlargest(NAMES_SHOWN, waits, key=itemgetter(0, 1))
        ]
        labels = ["stream", "domain", "writer", "contact"]
        held_back_rows = ((names, waiting.held_back_ms / 1000) for names, waiting in named_waits)
        sentence = "How long a writer has held the watermark back, from 5 s on"
        yield _build_writer_family("holding_back_seconds", sentence, held_back_rows, labels)
        left = ((names, waiting.times_out_in_ms / 1000) for names, waiting in named_waits)
        sentence = "Time until such a writer is excluded if it stays silent"
        yield _build_writer_family("holding_back_times_out_seconds", sentence, left, labels)
        holding_back = sum(domain.holding_back for _, domain in _list_domains(self._streams))
        sentence = "Members that hold the watermark back, and that no series names"
        yield _build_family(
            "holding_back_not_named", sentence, [([], holding_back - len(named_waits))]
        )

    def _collect_groups(self) -> Iterator[Metric]:
        sentence = "Last lower minus the lower of a reader group, in the stream's time"
        yield _build_family("group_lag", sentence, self._groups, ["stream", "group", "domain"])
        sentence = "Reader groups that are not measured"
        yield _build_family("groups_not_shown", sentence, [([], self._groups_not_shown)])

    def _find_lag_s(self, domain: DomainReading) -> float | None:
        if domain.last is None or domain.last.lower not in UNIX_MS:
            return None
        return (self._now.wall - domain.last.lower) / 1000

    def _find_age_s(self, domain: DomainReading) -> float | None:
        if domain.last is None:
            return None
        return max(0, self._now.wall - domain.last.written_at) / 1000


def _list_domains(streams: Sequence[StreamReading]) -> Iterator[tuple[str, DomainReading]]:
    for stream in streams:
        for domain in stream.domains:
            yield stream.name, domain


def _find_last_seq(domain: DomainReading) -> int:
    return 0 if domain.last is None else domain.last.seq


def _find_lower(domain: DomainReading) -> int | None:
    return None if domain.last is None else domain.last.lower


def _find_longest_s(domain: DomainReading) -> float:
    """Return how long the first writer has held the watermark back, or 0 if none does."""
    return domain.longest[0].held_back_ms / 1000 if domain.longest else 0


def _build_family(
    name: str,
    sentence: str,
    rows: Iterable[tuple[Sequence[str], float]],
    labels: Sequence[str] = (),
    kind: Kind = GaugeMetricFamily,
) -> Metric:
    family = kind(f"{METRICS_NAMESPACE}_{name}", sentence, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _build_writer_family(
    name: str,
    sentence: str,
    rows: Iterable[tuple[Sequence[str | None], float]],
    labels: Sequence[str],
) -> Metric:
    """Return a gauge of writers, without the label of a contact that is not known."""
    family = GaugeMetricFamily(f"{METRICS_NAMESPACE}_{name}", sentence)
    for values, value in rows:
        pairs = zip(labels, values, strict=True)
        known_labels = {label: text for label, text in pairs if text is not None}
        family.add_sample(family.name, known_labels, value)
    return family
