"""Combines the positions of a group of readers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class ReaderGroup(Struct):
    """The combined position of readers that share a stream's segments (PDP-33).

    It has the offset that each segment's reader reported last:

    >>> group = ReaderGroup()
    >>> group.report("a", {0: 10}); group.report("b", {1: 7}); group.report("c", {})
    >>> group.position
    {0: 10, 1: 7}

    A reader that goes offline resets its segments, unless another reader reported them since:

    >>> group.report("b", {0: 12})
    >>> group.offline("a", {0: 8}); group.offline("b", {0: 11, 1: 5})
    >>> group.position, sorted(group.readers)
    ({0: 11, 1: 5}, ['c'])
    """

    offsets: dict[int, tuple[int, str]] = {}
    readers: set[str] = field(default_factory=set)

    @property
    def position(self) -> dict[int, int]:
        """The combined position: segment → exclusive offset."""
        return {segment: offset for segment, (offset, _) in self.offsets.items()}

    def segments_of(self, reader: str) -> dict[int, int]:
        """Return the segments that `reader` reported last, with its offsets."""
        return {
            segment: offset for segment, (offset, owner) in self.offsets.items() if owner == reader
        }

    def segments_by_reader(self) -> dict[str, dict[int, int]]:
        """Return `segments_of` each reader with segments."""
        by_reader: dict[str, dict[int, int]] = {}
        for segment, (offset, owner) in self.offsets.items():
            by_reader.setdefault(owner, {})[segment] = offset
        return by_reader

    def report(self, reader: str, position: Mapping[int, int]) -> None:
        """Record how far `reader` has read in its segments."""
        self.readers.add(reader)
        for segment, offset in position.items():
            self.offsets[segment] = (offset, reader)

    def offline(self, reader: str, position: Mapping[int, int]) -> None:
        """Reset the segments of `reader` to `position`, and remove the reader."""
        for segment in self.segments_of(reader).keys() & position.keys():
            self.offsets[segment] = (position[segment], reader)
        self.readers.discard(reader)
