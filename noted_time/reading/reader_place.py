"""Finds the segments that a reader must read up to the next mark."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from msgspec import Struct

from noted_time.reading.history import MarkHistory
from noted_time.values import SegmentWaited, find_missing_offsets


class ReaderPlace(Struct, frozen=True):
    """The time of a reader at a position, and the segments that it must read next.

    `marks` counts the marks that it has not reached, and `segments` the segments with unread rows
    below the next cut. `waiting_for` has the first of them.
    """

    lower: int | None
    next_seq: int | None
    next_lower: int | None
    marks: int
    segments: int
    waiting_for: tuple[SegmentWaited, ...]


def locate_reader(history: MarkHistory, position: Mapping[int, int], limit: int) -> ReaderPlace:
    """Return the place of a reader at a normalised position.

    >>> from noted_time.values import Mark, StreamCut
    >>> cuts = {10: {0: 100}, 20: {0: 200, 1: 50}, 30: {0: 200, 1: 90}}
    >>> marks = (Mark(n, t, 99, StreamCut(cuts[t])) for n, t in enumerate(cuts, start=1))
    >>> place = locate_reader(MarkHistory(marks), {0: 200, 1: 49}, limit=9)
    >>> place.lower, place.next_seq, place.next_lower, place.marks
    (10, 2, 20, 2)
    """
    window = history.window(position)
    next_mark = next(history.following(window.lower_seq or 0), None)
    if next_mark is None:
        return ReaderPlace(window.lower, None, None, 0, 0, ())
    unread_segments = find_missing_offsets(position, next_mark.cut.offsets)
    unread_segments.sort(key=lambda segment: (segment.offset - segment.needed, segment.segment))
    return ReaderPlace(
        window.lower,
        next_mark.seq,
        next_mark.lower,
        history.last_seq - next_mark.seq + 1,
        len(unread_segments),
        tuple(islice(unread_segments, limit)),
    )
