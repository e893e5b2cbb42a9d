"""Merge the items of all segments into one iterator, nearly in the order of time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")


class SegmentChooser(Protocol):
    """An object that chooses the next segment: a `ReaderClient` or an `AsyncReaderClient`."""

    def next_segment(self, among: Collection[int], domain: str | None) -> int | None:
        """Return the segment to read next, or `None` if none may be read."""


def merged(
    iterators: Mapping[int, Iterator[T]], reader: SegmentChooser, domain: str | None = None
) -> Iterator[tuple[int, T]]:
    """Yield (segment, item) pairs, always from the segment with the smallest time (PDP-28).

    Calls `reader.next_segment` before each item. Call `reader.advance` with the offset of each item
    before you take the next one. Otherwise one segment is read to its end, then the next.

    The order is approximate: it depends on the distance between marks, and has no guaranteed bound.
    If `next_segment` returns `None`, for example before the first marks are known, the item comes
    from the iterator with the lowest id. Raises as `reader.get_time_window`.

    >>> class InTurn:
    ...     def next_segment(self, among, domain):
    ...         return max(among)
    >>> list(merged({0: iter("ab"), 1: iter("c")}, InTurn()))
    [(1, 'c'), (0, 'a'), (0, 'b')]
    """
    left = dict(iterators)
    while left:
        segment = reader.next_segment(left.keys(), domain)
        if segment is None:
            segment = min(left)
        for item in left[segment]:
            yield segment, item
            break
        else:
            del left[segment]
