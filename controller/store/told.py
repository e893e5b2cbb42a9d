"""Records of members as text, as it is stored: JSON with commas between."""

from __future__ import annotations

from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from controller.store.rows import encode
from noted_time import MemberRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from noted_time.record import Fields

_Fields = tuple[str, str, bool, dict[int, int], dict[str, int], dict[str, int], int, int, int]

_decode = msgspec.json.Decoder(_Fields).decode
_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Told(NamedTuple):
    """The records of some members of a stream, encoded.

    Made at once where they just changed, they are in the processor's cache, and the memory that
    they took is used again: of a thousand that takes half as long as later.
    """

    stream_id: str
    writers: Sequence[str]
    text: bytes

    @classmethod
    def of(cls, stream_id: str, records: Iterable[Fields]) -> Told:
        """Return the records of a stream as text."""
        listed = list(records)
        return cls(stream_id, [fields[0] for fields in listed], encode(listed)[1:-1])

    def without(self, gone: AbstractSet[str]) -> Told:
        """Return the records of all others."""
        if gone.isdisjoint(self.writers):
            return self
        return Told.of(self.stream_id, [each for each in self.records() if each.writer not in gone])

    def records(self) -> list[MemberRecord]:
        """Return them again.

        >>> record = MemberRecord("UA", "live", False, {0: 7}, {"default": 5}, {}, 1, 1)
        >>> Told.of("id-1", [record]).records() == [record]
        True
        """
        return [decoded(part) for part in _parts(b"[%b]" % self.text)]


def in_parts(told: Iterable[Told], records: int) -> Iterator[Told]:
    """Yield the same in fewer parts, each of one stream and, but for its last, so many records.

    >>> parts = (Told("id-1", [name], name.encode()) for name in "abc")
    >>> [(part.writers, part.text) for part in in_parts(parts, 2)]
    [(['a', 'b'], b'a,b'), (['c'], b'c')]
    """
    for stream_id, group in groupby(told, key=attrgetter("stream_id")):
        waiting: list[Told] = []
        for each in group:
            waiting.append(each)
            if sum(len(part.writers) for part in waiting) >= records:
                yield _joined(stream_id, waiting)
                waiting = []
        if waiting:
            yield _joined(stream_id, waiting)


def _joined(stream_id: str, parts: Sequence[Told]) -> Told:
    writers = list(chain.from_iterable(part.writers for part in parts))
    return Told(stream_id, writers, b",".join([part.text for part in parts if part.writers]))


def decoded(text: bytes | msgspec.Raw) -> MemberRecord:
    """Return one record."""
    return MemberRecord._make(_decode(text))
