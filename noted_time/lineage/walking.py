"""Finds the hop that holds back a dataset, on its way to the writers; times are in Unix ms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from noted_time.extensions import find_scheme
from noted_time.values import (
    DEFAULT_DOMAIN,
    MIN_INT64,
    NAME_PATTERN,
    NotedTimeError,
    Rejected,
    format_gap,
)

MOST_DEPTH = 20
MOST_HOPS = 100
NOT_FOLLOWED = f"it is more than {MOST_DEPTH} hops away, or one of more than {MOST_HOPS}"

RUN_QUERY = "check that the query runs and keeps up: `{program} doctor --checkpoint DIR`"
RESTORE_SOURCE = "restore {dataset}, or the access to it"


class Dataset(NamedTuple):
    """A dataset by its name, and the domain if it is a stream.

    The domain is `""` for the default one, and `None` if it is not known.

    >>> names = ("orders", "group:billing@kafka:9092/orders", "./checkpoint")
    >>> [Dataset(name).kind for name in names]
    ['stream', 'group', 'checkpoint']
    """

    name: str
    domain: str | None = ""

    def __str__(self) -> str:
        is_default = self.domain in {None, "", DEFAULT_DOMAIN}
        if is_default:
            return self.name
        return f"{self.name} ({self.domain})"

    @property
    def kind(self) -> str:
        if NAME_PATTERN.fullmatch(self.name):
            return "stream"
        scheme = find_scheme(self.name)
        if scheme is not None:
            return scheme.kind
        if self.name.startswith("group:"):
            return "group"
        return "checkpoint"


class HopSource(Struct, frozen=True):
    """A dataset that a hop is made from.

    - `taken_to`: the hop has its rows below this time, `None` if this is not known.
    - `delay_ms`: how far the hop remains behind it by design.
    - `why`: why the hop lacks its later rows, if a job writes the hop.
    - `remembered`, `origins`: its time and streams when the job read it.
    """

    dataset: Dataset
    taken_to: int | None = None
    delay_ms: int = 0
    why: str = ""
    remembered: int | None = None
    origins: tuple[Dataset, ...] = ()


class Hop(Struct, frozen=True):
    """A dataset, and how far it is complete, `None` if this is not known.

    - `why`: why it is not complete to a later time, except for its sources.
    - `remedy`: what to do, with the fields `program` and `dataset`.
    - `lack`: which writers and rows it lacks, as the end of a sentence.
    - `doubt`: why the requested time is not known, although it is below `complete_to`.
    - `ahead_to`: the time of a stream without the writers that it waits for.
    - `is_waiting`: whether a stream waits for writers, or for its seal after all have finished.
    """

    dataset: Dataset
    complete_to: int | None
    sources: tuple[HopSource, ...] = ()
    why: str = ""
    remedy: str = ""
    lack: str = ""
    doubt: str = ""
    ahead_to: int | None = None
    is_waiting: bool = False


Hops = Mapping[Dataset, Hop]


def walk(root: Hop, read_hop: Callable[[Dataset], Hop]) -> dict[Dataset, Hop]:
    """Read all datasets that the root is made from, each once, the nearest first.

    A dataset that cannot be read is a hop with the reason and its remembered streams.
    """
    hops = {root.dataset: root}
    edges = [(root, root_source, 1) for root_source in root.sources]
    for child, source, depth in edges:  # also those that the loop appends
        if source.dataset not in hops:
            try:
                if depth >= MOST_DEPTH or len(hops) >= MOST_HOPS:
                    raise Rejected(NOT_FOLLOWED)
                hop = read_hop(source.dataset)
            except (NotedTimeError, ImportError) as error:
                hop = _describe_unread(child, source, error)
            hops[source.dataset] = hop
            edges += [(hop, hop_source, depth + 1) for hop_source in hop.sources]
    return hops


def _describe_unread(child: Hop, source: HopSource, error: Exception) -> Hop:
    why = f"it cannot be read: {error}"
    sources = tuple(map(HopSource, source.origins))
    lack = f", as {child.dataset} remembers; {why}"
    return Hop(source.dataset, source.remembered, sources, why, RESTORE_SOURCE, lack)


class Step(NamedTuple):
    """A hop on the way to the writers, and the source that limits it.

    `limit` is the time that the hop can have by this source. `circle` are the datasets that are
    made from each other, if the way ends there.
    """

    hop: Hop
    source: HopSource | None
    limit: int | None
    circle: tuple[Dataset, ...] = ()

    @property
    def lag(self) -> str:
        complete_to = self.hop.complete_to
        limit = self.limit
        if self.source is None or complete_to is None or limit is None or limit <= complete_to:
            return ""
        return f"{format_gap(complete_to, limit)} behind {self.source.dataset}"

    @property
    def lag_ms(self) -> int:
        if self.hop.complete_to is None or self.circle:
            return -MIN_INT64
        if self.limit is None:
            return 0
        return self.limit - self.hop.complete_to


def find_step(hops: Hops, hop: Hop) -> Step:
    """Return the step to the source that the hop has read least of.

    Of several, it is the least complete one. A time that is not known counts as the least.
    """
    limits: dict[HopSource, int | None] = {}
    for source in hop.sources:
        complete_to = hops[source.dataset].complete_to
        limits[source] = None if complete_to is None else complete_to - source.delay_ms

    def rank(source: HopSource) -> tuple[int, int]:
        return _or_least(source.taken_to), _or_least(limits[source])

    if not limits:
        return Step(hop, None, hop.ahead_to)
    least_source = min(limits, key=rank)
    return Step(hop, least_source, limits[least_source])


def _or_least(time: int | None) -> int:
    return MIN_INT64 if time is None else time


def find_culprit(hops: Hops, root: Dataset, time: int | None) -> Step | None:
    """Return the first step that lacks `time` although its source has it.

    Without `time`, return the step that is furthest behind its source, or if none is behind, the
    stream if it waits.

    >>> silver, orders = Dataset("delta:silver"), Dataset("orders")
    >>> hops = {silver: Hop(silver, 5, (HopSource(orders, 5),)), orders: Hop(orders, 9)}
    >>> [find_culprit(hops, silver, time).hop.dataset.name for time in (8, 10, None)]
    ['delta:silver', 'orders', 'delta:silver']
    """
    steps: dict[Dataset, Step] = {}
    needed_time = time
    dataset = root
    while True:
        step = find_step(hops, hops[dataset])
        steps[dataset] = step
        if step.source is None:
            break
        if step.source.dataset in steps:
            datasets = [*steps]
            circle = datasets[datasets.index(step.source.dataset) :]
            steps[dataset] = step._replace(circle=tuple(circle))
            break
        if needed_time is not None:
            source_has_time = step.limit is not None and step.limit >= needed_time
            if step.hop.complete_to is None or source_has_time:
                return step
            needed_time += step.source.delay_ms
        dataset = step.source.dataset
    if time is not None:
        return steps[dataset]
    widest_step = max(steps.values(), key=attrgetter("lag_ms"))
    if widest_step.lag_ms > 1:
        return widest_step
    return steps[dataset] if steps[dataset].hop.is_waiting else None
