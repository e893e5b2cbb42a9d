"""Marks, and the time window that a reader takes from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from noted_time.values.cut import StreamCut


@dataclass(frozen=True, slots=True)
class Mark:
    """The aggregate of the notes at one moment (PDP-33).

    All events with time < `lower` of every vouching writer lie below `cut`. `upper` is the largest
    event time that was declared. Marks of a (stream, domain) form a chain: `seq` 1, 2, 3 …, `lower`
    strictly rising, each cut reaching the one before.

    `written_at` is wall time in Unix ms, for people; nothing is decided by it. `excluded` names the
    writers that this mark was the first to advance without. `upper_is_bound`: no event below the
    cut has a time above the upper, whatever its writer. `final`: the stream is sealed, and nothing
    lies beyond the cut.
    """

    seq: int
    lower: int
    upper: int
    cut: StreamCut
    written_at: int = 0
    excluded: tuple[str, ...] = ()
    upper_is_bound: bool = False
    final: bool = False


class TimeWindow(NamedTuple):
    """What a position in the stream implies about time.

    Every event with time < `lower` (of a writer that keeps its word) was read before the position;
    no event read before it has a time > `upper`. Either is `None` if no mark bounds it.
    `sealed`: the stream is sealed, and all of it was read.
    """

    # a tuple: to make a frozen dataclass took longer than a search of four segments
    lower: int | None
    upper: int | None
    lower_seq: int | None = None
    upper_seq: int | None = None
    sealed: bool = False
