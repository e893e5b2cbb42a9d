"""Merges the items of all segments, nearly in the order of time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")


class SegmentChooser(Protocol):
    """Chooses the next segment, as a `ReaderClient` does."""

    def next_segment(self, among: Collection[int], domain: str | None) -> int | None:
        """Return the segment to read next, or `None` if none may be read."""


def merged(
    iterators: Mapping[int, Iterator[T]], reader: SegmentChooser, domain: str | None = None
) -> Iterator[tuple[int, T]]:
    """Yield (segment, item) pairs, always from the segment with the smallest time (PDP-28).

    Call `reader.advance` with the offset of each item before the next one, or one segment is read
    to its end first. The order is approximate. If `next_segment` returns `None`, the item comes
    from the lowest id.

    >>> class InTurn:
    ...     def next_segment(self, among, domain):
    ...         return max(among)
    >>> list(merged({0: iter("ab"), 1: iter("c")}, InTurn()))
    [(1, 'c'), (0, 'a'), (0, 'b')]
    """
    remaining = dict(iterators)
    while remaining:
        segment = reader.next_segment(remaining.keys(), domain)
        if segment is None:
            segment = min(remaining)
        try:
            next_item = next(remaining[segment])
        except StopIteration:
            del remaining[segment]
            continue
        yield segment, next_item
