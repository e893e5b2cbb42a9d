"""One iterator of many: the items of all segments, nearly in the order of time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")


class SegmentChooser(Protocol):
    """What knows which segment is next: a `ReaderClient` or an `AsyncReaderClient`."""

    def next_segment(self, among: Collection[int], domain: str | None) -> int | None:
        """Return which of these segments to read next, `None` if none may be read."""


def merged(
    iterators: Mapping[int, Iterator[T]], reader: SegmentChooser, domain: str | None = None
) -> Iterator[tuple[int, T]]:
    """Yield (segment, item) of the iterators, from the segment with the least time first (PDP-28).

    Before each item `reader.next_segment` is asked for that segment, so `reader.advance` has to
    report what was read of a segment before the next item is taken: otherwise one segment is read
    to its end, then the next. Marks that arrive meanwhile count at once. Ends when all iterators
    have ended.

    Best effort: how far items are out of order depends on how far apart the marks are, and no bound
    is promised. Before the first marks are known, and when no segment may be read by the marks,
    items come from the iterator with the least id. Raises as `reader.get_time_window`.

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
