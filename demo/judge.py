"""Judges at each look how far a Delta table was complete, and who said so.

The judge reads the files and rows of each version, but no claims. A flight is missing in a version
if only a later one has it. The truth of a version is the earliest missing departure, and at most
the replay's clock: no hour is complete before its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from demo.data import Flight
from demo.replay import SCHEMA

Says = Callable[["Seen"], int | None]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the table: its version, and the claim, if any."""

    clock: int
    version: int
    claim: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts at a look; times are Unix ms.

    `truth` is how far the table was complete, and `newest` its `max(event_time)`. `missing` counts
    the missing flights by the end of their hour.
    """

    clock: int
    truth: int
    claim: int | None
    newest: int | None
    missing: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How often one method was right about the hours with departures.

    `called` hours were called complete, `wrong` of them too early, and `missed` counts the flights
    that a job would have missed at the first call. `late_ms` has how long after it was complete
    each hour was called, sorted.
    """

    name: str
    hours: int
    called: int
    wrong: int
    missed: int
    late_ms: tuple[int, ...]


def read_rows(location: str, version: int | None = None) -> Counter[Flight]:
    """Return the rows of a version of the table, by default of the last."""
    rows = Counter[Flight]()
    for file in DeltaTable(location, version=version).file_uris():
        rows.update(_read_file(file))
    return rows


def read_looks(location: str, looks: Sequence[Look]) -> Iterator[Seen]:
    counters: dict[str, Counter[Flight]] = {}
    missing = read_rows(location)
    present = set[str]()
    for look in looks:
        files = set(DeltaTable(location, version=look.version).file_uris())
        for file in files - counters.keys():
            counters[file] = _read_file(file)
        for file in files - present:
            missing.subtract(counters[file])
        for file in present - files:
            missing.update(counters[file])
        missing = +missing  # only those with a positive count
        present = files
        hours = Counter[int]()
        for flight, times in missing.items():
            hours[flight.window_end] += times
        truth = min((flight.departure for flight in missing), default=look.clock)
        rows = chain.from_iterable(counters[file] for file in files)
        newest = max((row.departure for row in rows), default=None)
        yield Seen(look.clock, min(truth, look.clock), look.claim, newest, hours)


def judge(name: str, looks: Sequence[Seen], ends: Sequence[int], says: Says) -> Verdict:
    """Return how right a method was about the hours with these ends, by its answer at each look.

    >>> looks = [Seen(5, 5, 5, 8, {10: 2}), Seen(12, 7, 7, 10, {10: 1}), Seen(14, 14, 14, 13, {})]
    >>> judge("claim", looks, [10], lambda look: look.claim)
    Verdict(name='claim', hours=1, called=1, wrong=0, missed=0, late_ms=(0,))
    >>> judge("newest", looks, [10], lambda look: look.newest)
    Verdict(name='newest', hours=1, called=1, wrong=1, missed=1, late_ms=())
    """
    wrong = 0
    missed_count = 0
    late = list[int]()
    for end in ends:
        calls = []
        for look in looks:
            complete_to = says(look)
            if complete_to is not None and complete_to >= end:
                calls.append(look)
        true_at = next(look.clock for look in looks if look.truth >= end)
        if any(look.truth < end for look in calls):
            wrong += 1
            missed_count += calls[0].missing.get(end, 0)
        elif calls:
            late.append(calls[0].clock - true_at)
    return Verdict(name, len(ends), wrong + len(late), wrong, missed_count, tuple(sorted(late)))


def _read_file(file: str) -> Counter[Flight]:
    rows = pq.read_table(file, partitioning=None).cast(SCHEMA)
    landings = rows["landing"].cast(pa.int64()).to_pylist()
    departures = rows["departure"].cast(pa.int64()).to_pylist()
    carriers = rows["carrier"].to_pylist()
    origins = rows["origin"].to_pylist()
    columns = zip(landings, departures, carriers, origins, strict=True)
    return Counter(Flight(*row) for row in columns)
