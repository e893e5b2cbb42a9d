"""The alignments of this controller: those whose names hash to buckets that it has.

Their settings are durable. Their members are in memory alone, as they report again within a second
or so: an alignment that was loaded anew has none until they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.values import LimitReached, UnknownAlignment
from noted_time.wing import Alignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from controller.store.port import AlignmentRecord


class Alignments:
    """Alignments by name."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_name: dict[str, Alignment] = {}

    def __getitem__(self, name: str) -> Alignment:
        """Return the alignment of that name; raises `UnknownAlignment`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownAlignment(name) from None

    def __iter__(self) -> Iterator[tuple[str, Alignment]]:
        """Iterate over names and alignments, in the order in which they were read or made."""
        return iter(self._by_name.items())

    def put(self, record: AlignmentRecord, most: int) -> bool:
        """Make an alignment, or change its settings; returns whether it is new.

        Raises `LimitReached` where there are as many as `most`.
        """
        found = self._by_name.get(record.name)
        if found is not None:
            found.settings = record.settings
            return False
        if len(self._by_name) >= most:
            raise LimitReached("alignments", most, "remove one")
        self._by_name[record.name] = Alignment(record.settings)
        return True

    def remove(self, name: str) -> None:
        """Remove an alignment with its members; raises `UnknownAlignment`."""
        if self._by_name.pop(name, None) is None:
            raise UnknownAlignment(name)

    def load(self, records: Iterable[AlignmentRecord]) -> None:
        """Add alignments as they are stored, without members."""
        self._by_name.update((each.name, Alignment(each.settings)) for each in records)

    def drop_unless(self, is_owned: Callable[[str], bool]) -> None:
        """Drop those that are not owned any more."""
        owned = {name: each for name, each in self._by_name.items() if is_owned(name)}
        self._by_name = owned
