"""What a Delta table was complete to at each look, judged from outside, and who said what then.

The judge knows no claims: it reads which files each version of the table consists of, and the rows
in them. A flight is missing in a version if only a later one has it. So the truth of a version is
the earliest departure that is missing in it, and at most the clock of the replay: no hour is
complete before it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from demo.data import Flight
from demo.replay import SCHEMA

Says = Callable[["Seen"], int | None]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the table: its version, and what was claimed then, `None` if nothing was."""

    clock: int
    version: int
    claim: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What there was to see at a look; all times in Unix ms.

    `truth` is what the table was complete to, and `newest` its `max(event_time)`. `missing` counts
    the flights that were not in it yet by the end of the hour in which they departed.
    """

    clock: int
    truth: int
    claim: int | None
    newest: int | None
    missing: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How often one method was right about the hours that have departures.

    `called` hours were called complete, `wrong` of them while flights of that hour or one before
    were missing, `missed` is the number of flights of these hours that a job would have missed that
    started at the first call. `late_ms` has for each hour that was called after it was complete how
    long after, sorted.
    """

    name: str
    hours: int
    called: int
    wrong: int
    missed: int
    late_ms: tuple[int, ...]


def rows_of(location: str, version: int | None = None) -> Counter[Flight]:
    """Return the rows of a version of the table, of the last one if none is given."""
    files = DeltaTable(location, version=version).file_uris()
    return sum(map(_rows_in, files), Counter[Flight]())


def seen(location: str, looks: Sequence[Look]) -> Iterator[Seen]:
    """Yield what there was to see at each look."""
    read: dict[str, Counter[Flight]] = {}
    missing, present = rows_of(location), set[str]()
    for look in looks:
        files = set(DeltaTable(location, version=look.version).file_uris())
        read |= {file: _rows_in(file) for file in files - read.keys()}
        for file in files - present:
            missing.subtract(read[file])
        for file in present - files:
            missing.update(read[file])
        missing, present = +missing, files
        hours = Counter[int]()
        for flight, times in missing.items():
            hours[flight.window_end] += times
        truth = min((flight.departure for flight in missing), default=look.clock)
        newest = max((row.departure for file in files for row in read[file]), default=None)
        yield Seen(look.clock, min(truth, look.clock), look.claim, newest, hours)


def judged(name: str, looks: Sequence[Seen], ends: Sequence[int], says: Says) -> Verdict:
    """Return how right a method was, by what it says at each look, about the hours with these ends.

    >>> looks = [Seen(5, 5, 5, 8, {10: 2}), Seen(12, 7, 7, 10, {10: 1}), Seen(14, 14, 14, 13, {})]
    >>> judged("claim", looks, [10], lambda look: look.claim)
    Verdict(name='claim', hours=1, called=1, wrong=0, missed=0, late_ms=(0,))
    >>> judged("newest", looks, [10], lambda look: look.newest)
    Verdict(name='newest', hours=1, called=1, wrong=1, missed=1, late_ms=())
    """
    wrong, missed, late = 0, 0, list[int]()
    for end in ends:
        calls = [look for look in looks if (said := says(look)) is not None and said >= end]
        true_at = next(look.clock for look in looks if look.truth >= end)
        if any(look.truth < end for look in calls):
            wrong += 1
            missed += calls[0].missing.get(end, 0)
        elif calls:
            late.append(calls[0].clock - true_at)
    return Verdict(name, len(ends), wrong + len(late), wrong, missed, tuple(sorted(late)))


def _rows_in(file: str) -> Counter[Flight]:
    rows = pq.read_table(file, partitioning=None).cast(SCHEMA)
    columns = {name: rows[name] for name in SCHEMA.names}
    times = [columns[name].cast(pa.int64()).to_pylist() for name in ("landing", "departure")]
    words = [columns[name].to_pylist() for name in ("carrier", "origin")]
    return Counter(map(Flight, *times, *words))
