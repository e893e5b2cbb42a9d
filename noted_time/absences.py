"""Whom the next marks of a domain go on without, and which late rows they learn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.membership import Absence
from noted_time.time_queue import TimeQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noted_time.member import Track
    from noted_time.membership import LateRows, Reason


class Absences:
    """Members that were excluded, each until the first mark above its time names it.

    An entry may be stale: a member that came back meanwhile is dropped in its turn.
    """

    __slots__ = ("_late", "_queue")

    def __init__(self) -> None:
        """Begin with nobody."""
        self._queue: TimeQueue[Track] = TimeQueue()
        self._late: dict[Track, LateRows] = {}

    def add(self, track: Track) -> None:
        """Name the member on the first mark above its time, if it is excluded by then."""
        track.is_unrecorded = True
        if not track.in_absences:
            track.in_absences = True
            self._queue.push(track.time, track)

    def add_late_rows(self, track: Track, late: LateRows) -> None:
        """Tell the next mark of rows that the member wrote below the lower."""
        known = self._late.get(track)
        self._late[track] = known.join(late) if known else late

    def awaits(self, track: Track) -> bool:
        """Whether a mark has still to name the member."""
        return (track.is_unrecorded and track.member.excluded is not None) or track in self._late

    def before(self, lower: int) -> Iterator[Track]:
        """Yield the members that a mark at `lower` would name; nothing changes."""
        return (track for track in self._queue.before(lower) if _is_to_be_named(track, lower))

    def take(self, lower: int) -> tuple[Absence, ...]:
        """Return what the mark at `lower` says of them, by name; it is said once."""
        absences: dict[str, Absence] = {}
        while self._queue.due(lower):
            for track in self._queue.pop():
                track.in_absences = False
                if _is_to_be_named(track, lower):
                    track.is_unrecorded = False
                    reason = track.member.excluded or "returned_late"
                    absences[track.member.writer] = _absence(track, reason)
                elif track.is_unrecorded and track.is_out:
                    self.add(track)
        for track, late in self._late.items():
            known = absences.get(track.member.writer) or _absence(track, "late_rows")
            absences[known.writer] = known._replace(late=late)
        self._late.clear()
        return tuple(absences[writer] for writer in sorted(absences))


def _is_to_be_named(track: Track, lower: int) -> bool:
    return track.is_unrecorded and track.is_out and track.time < lower


def _absence(track: Track, reason: Reason) -> Absence:
    return Absence(track.member.writer, track.noted, dict(track.member.position), reason)
