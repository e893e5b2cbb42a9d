"""Finds the hop that holds a dataset, on the way from it to the writers.

A hop is a dataset with its facts: how far it is complete, and the datasets that it is made from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from noted_time.reading.claims import NoClaim, TableHistory
from noted_time.values import MIN_INT64, NAME_PATTERN, Claim, NotedTimeError, Rejected, Waiting

Kind = Literal["stream", "table", "group", "checkpoint"]

KINDS: Mapping[str, Kind] = {"delta": "table", "iceberg": "table", "group": "group"}
"""The kinds of datasets by the part of their name before the first colon."""

MOST_DEPTH = 20
MOST_HOPS = 100

NOT_FOLLOWED = "it is more than {} hops away, or one of more than {}"


class Dataset(NamedTuple):
    """A dataset by its name, and the domain if it is a stream.

    >>> [Dataset(name).kind for name in ("orders", "delta:/lake/gold", "./checkpoint")]
    ['stream', 'table', 'checkpoint']
    """

    name: str
    domain: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.domain})" if self.domain else self.name

    @property
    def kind(self) -> Kind:
        other: Kind = "stream" if NAME_PATTERN.fullmatch(self.name) else "checkpoint"
        return KINDS.get(self.name.partition(":")[0], other) if ":" in self.name else other


@dataclass(frozen=True, slots=True)
class Source:
    """A dataset that a hop is made from. Times are in Unix ms.

    - `taken_to`: up to when its rows are in the hop, `None` if this is not known.
    - `complete_to`: up to when it was complete as a job read it, if the hop remembers that.
    - `taken_at`: when the hop was written from it.
    - `delay_ms`: how far the hop remains behind it by design.
    """

    dataset: Dataset
    taken_to: int | None = None
    complete_to: int | None = None
    taken_at: int | None = None
    delay_ms: int = 0
    by_job: bool = False


@dataclass(frozen=True, slots=True)
class Hop:
    """A dataset, how far it is complete (Unix ms), and the datasets that it is made from.

    - `complete_to`: `None` if this is not known, and `why` has the reason.
    - `is_read`: if false, `why` has the reason, and `complete_to` is the time that the dataset made
      from it remembers.
    - `ahead_to`: how far a stream would be complete without the writers that it waits for.
    - `missing`: the writers that are missing, `None` if they were not asked for.
    - `origins`: the streams at the start of its sources, if it remembers them.
    """

    dataset: Dataset
    complete_to: int | None
    sources: tuple[Source, ...] = ()
    why: str = ""
    is_read: bool = True
    waiting_for: tuple[Waiting, ...] = ()
    holders: int = 0
    ahead_to: int | None = None
    missing: tuple[str, ...] | None = ()
    remarks: tuple[str, ...] = ()
    origins: tuple[Dataset, ...] = ()

    def has(self, time: int) -> bool:
        return self.complete_to is not None and self.complete_to >= time

    def list_sources(self, time: int) -> list[Source]:
        """Return the sources whose rows below `time` are not all in the dataset."""
        return [each for each in self.sources if each.taken_to is None or each.taken_to < time]


Hops = Mapping[Dataset, Hop]


@dataclass(frozen=True, slots=True)
class Holder:
    """The hop that holds a dataset: it lacks `time` (Unix ms), although its `sources` have it.

    `path` leads to it from the dataset.
    """

    hop: Hop
    time: int
    sources: tuple[Source, ...]
    path: tuple[Dataset, ...]

    @property
    def is_circle(self) -> bool:
        """Whether the hop is made only from datasets on the path, so that they wait for it."""
        return bool(self.sources) and {each.dataset for each in self.sources} <= {*self.path}


def describe_table(dataset: Dataset, history: TableHistory) -> Hop:
    """Return a table with its sources, also those of claims that have ended."""
    found, standings = history.claim(), history.standings()
    moments = {commit.id: commit.written_at for commit in history.commits}
    sources: list[Source] = []
    origins: dict[Dataset, None] = {}
    for name in history.expects or standings:
        standing = standings.get(name)
        if standing is None or standing.claim is None:
            continue
        claim, at = standing.claim, moments.get(standing.at or 0)
        streams = [Dataset(each, claim.domain) for each in claim.stream.split(",") if each]
        if claim.inherits:
            sources += _list_parents(claim, standing.complete_to, at)
            origins |= dict.fromkeys(streams)
        else:
            sources += [Source(each, standing.complete_to, taken_at=at) for each in streams]
    if isinstance(found, NoClaim):
        return Hop(dataset, None, tuple(sources), found.why, origins=tuple(origins))
    remarks = (found.gone,) if found.gone else ()
    return Hop(
        dataset,
        found.complete_to,
        tuple(sources),
        missing=found.missing,
        remarks=remarks,
        origins=tuple(origins),
    )


def _list_parents(claim: Claim, taken_to: int | None, at: int | None) -> Iterator[Source]:
    """Yield the sources of a batch job. The claim is their least time, less the job's delay."""
    least_time = min(each.complete_to for each in claim.inherits)
    delay_ms = least_time - (least_time if claim.complete_to is None else claim.complete_to)
    for each in claim.inherits:
        yield Source(Dataset(each.table), taken_to, each.complete_to, at, delay_ms, by_job=True)


def walk(root: Dataset, read: Callable[[Dataset], Hop]) -> dict[Dataset, Hop]:
    """Read a dataset and all datasets that it is made from, each once, the nearest first.

    A dataset that cannot be read is a hop with the reason. Its sources are the streams that the
    dataset made from it remembers. Raises the errors of `read` for the root.
    """
    hops = {root: read(root)}
    edges = deque((root, each, 1) for each in hops[root].sources)
    while edges:
        child, source, depth = edges.popleft()
        if source.dataset in hops:
            continue
        is_near = depth < MOST_DEPTH and len(hops) < MOST_HOPS
        hop = _read_source(hops[child], source, read if is_near else _refuse)
        hops[source.dataset] = hop
        edges.extend((source.dataset, each, depth + 1) for each in hop.sources)
    return hops


def _refuse(_: Dataset) -> Hop:
    raise Rejected(NOT_FOLLOWED.format(MOST_DEPTH, MOST_HOPS))


def _read_source(child: Hop, source: Source, read: Callable[[Dataset], Hop]) -> Hop:
    try:
        return read(source.dataset)
    except (NotedTimeError, ImportError) as error:
        streams = tuple(Source(each) for each in child.origins if each != source.dataset)
        return Hop(source.dataset, source.complete_to, streams, str(error), is_read=False)


def find_holder(hops: Hops, root: Dataset, time: int) -> Holder | None:
    """Return the first hop from the root on that lacks `time` although its sources have it.

    If several sources of a hop lack the time, the one that is least complete is followed. Sources
    that lead back to the path are passed over. A hop of unknown time lacks any time.

    >>> silver, orders = Dataset("delta:silver"), Dataset("orders")
    >>> hops = {silver: Hop(silver, 5, (Source(orders, 5),)), orders: Hop(orders, 9)}
    >>> [find_holder(hops, silver, time).hop.dataset.name for time in (8, 10)]
    ['delta:silver', 'orders']
    """
    if hops[root].has(time):
        return None
    path = [root]
    while True:
        hop = hops[path[-1]]
        sources = hop.list_sources(time)
        needed = MIN_INT64 if hop.complete_to is None else time
        behind = [
            each
            for each in sources
            if each.dataset not in path and not hops[each.dataset].has(needed + each.delay_ms)
        ]
        if not behind:
            return Holder(hop, time, tuple(sources), tuple(path))
        followed = min(behind, key=lambda each: compute_limit(hops, each))
        path.append(followed.dataset)
        time = needed + followed.delay_ms


def compute_limit(hops: Hops, source: Source) -> int:
    """Return up to when a hop can be complete by this source (Unix ms)."""
    complete_to = hops[source.dataset].complete_to
    return MIN_INT64 if complete_to is None else complete_to - source.delay_ms


def find_open_time(hops: Hops, root: Dataset) -> int | None:
    """Return the time (Unix ms) that the root lacks because of the hop that is furthest behind.

    A hop is behind the least complete of its sources, and a stream behind its `ahead_to`. `None` if
    no hop is behind.
    """
    first = hops[root].complete_to
    time, largest, delay_ms, path = None, 0, 0, [root]
    while (complete_to := hops[path[-1]].complete_to) is not None and first is not None:
        sources = hops[path[-1]].list_sources(complete_to + 1)
        sources = [each for each in sources if each.dataset not in path]
        nearest = min(sources, key=lambda each: compute_limit(hops, each), default=None)
        limit = hops[path[-1]].ahead_to if nearest is None else compute_limit(hops, nearest)
        if limit is not None and limit - complete_to > largest:
            largest, time = limit - complete_to, max(limit - delay_ms, first + 1)
        if nearest is None:
            return time
        delay_ms += nearest.delay_ms
        path.append(nearest.dataset)
    return MIN_INT64 if first is None else first + 1


def find_circles(hops: Hops, root: Dataset) -> list[tuple[Dataset, ...]]:
    """Return the circles among the hops, each from the dataset at which it was found."""
    circles: list[tuple[Dataset, ...]] = []
    seen: set[Dataset] = set()

    def follow(path: tuple[Dataset, ...]) -> None:
        seen.add(path[-1])
        for each in dict.fromkeys(source.dataset for source in hops[path[-1]].sources):
            if each in path:
                circles.append(path[path.index(each) :])
            elif each not in seen:
                follow((*path, each))

    follow((root,))
    return circles
