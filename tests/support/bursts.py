"""A log whose segments are written in bursts, one after another, and how orderly it is read."""

import random
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from noted_time import Mark, MarkHistory, StreamCut
from spark_integration.scan.admission import Unread
from spark_integration.scan.files import LogFile

ROWS_A_FILE = 50


@dataclass(frozen=True)
class BurstyLog:
    """The rising times of the rows of each segment; marks come every that much time."""

    times: Mapping[int, list[int]]
    marks: MarkHistory

    @property
    def files(self) -> dict[int, list[LogFile]]:
        """The rows of each segment as files of equal size."""
        return {
            segment: files_of([*range(0, len(times), ROWS_A_FILE), len(times)])
            for segment, times in self.times.items()
        }

    def disorder(self, batches: list[dict[int, int]]) -> float:
        """Return by how much a row is below the latest time of the batches before, on average."""
        latest, total, rows = 0, 0, 0
        for start, end in pairwise([{}, *batches]):
            read = [
                time
                for segment, times in self.times.items()
                for time in times[start.get(segment, 0) : end[segment]]
            ]
            total += sum(max(0, latest - time) for time in read)
            rows += len(read)
            latest = max([latest, *read])
        return total / rows


def bursty_log(
    seed: int, *, segments: int = 6, span: int = 12_000, mark_every: int = 50
) -> BurstyLog:
    """Return a log whose segments have ten times as many rows in one sixth of the time."""
    chance = random.Random(seed)
    times: dict[int, list[int]] = {segment: [] for segment in range(segments)}
    for time in range(span):
        bursting = time * segments // span
        for segment, rows in times.items():
            if chance.random() < (0.8 if segment == bursting else 0.08):
                rows.append(time)
    lowers = range(mark_every, span + 1, mark_every)
    cuts = [{s: bisect_left(rows, lower) for s, rows in times.items()} for lower in lowers]
    marks = (
        Mark(seq, lower, lower, StreamCut(cut))
        for seq, (lower, cut) in enumerate(zip(lowers, cuts, strict=True), 1)
    )
    return BurstyLog(times, MarkHistory(marks))


def files_of(bounds: list[int]) -> list[LogFile]:
    """Return files that begin and end at these offsets, one after another."""
    return [LogFile(Path(str(first)), first, last) for first, last in pairwise(bounds)]


def read_through(
    unread_from: Callable[[dict[int, int]], Unread], plan: Callable[[Unread], dict[int, int]]
) -> list[dict[int, int]]:
    """Return where each batch ends in a query that reads everything."""
    ends: list[dict[int, int]] = []
    position: dict[int, int] = {}
    while any((unread := unread_from(position)).rows().values()):
        rows = plan(unread)
        assert any(rows.values()), "a batch without a row"
        position = unread.ends(rows)
        ends.append(position)
    return ends
