"""Whom the marks of a domain go on without, and which late rows they learn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.rules.time_queue import TimeQueue
from noted_time.values import Absence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noted_time.rules.member import Track
    from noted_time.values import LateRows


class Absences:
    """Members that were excluded, each until the first mark above its time names it.

    An entry may be stale: a member that came back meanwhile is dropped in its turn. `missing` has
    the writers that the last mark went on without, whether they are members still or forgotten,
    and until a mark counts them again or names them as removed (S18).
    """

    __slots__ = ("_back", "_late", "_queue", "missing")

    def __init__(self) -> None:
        """Begin with nobody."""
        self._queue: TimeQueue[Track] = TimeQueue()
        self._late: dict[Track, LateRows] = {}
        self._back: dict[str, Track] = {}
        self.missing: set[str] = set()

    def look(self, track: Track, lower: int) -> None:
        """Notice a missing member that the next mark may count again, or that left the domain."""
        if track.member.writer in self.missing and not track.is_missed_at(lower + 1):
            self._back[track.member.writer] = track

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
        return (
            (track.is_unrecorded and track.member.excluded is not None)
            or track in self._late
            or track.member.writer in self._back
        )

    def before(self, lower: int) -> Iterator[Track]:
        """Yield the members that a mark at `lower` would name; nothing changes."""
        return (track for track in self._queue.before(lower) if _is_to_be_named(track, lower))

    def take(self, lower: int, last_lower: int | None) -> tuple[Absence, ...]:
        """Return what the mark at `lower` says of them, by name; it is said once.

        `last_lower` is that of the mark before it.
        """
        absences: dict[str, Absence] = {}
        while self._queue.due(lower):
            for track in self._queue.pop():
                track.in_absences = False
                if _is_to_be_named(track, lower):
                    track.is_unrecorded = False
                    named = absences[track.member.writer] = absence_of(track, last_lower)
                    self._miss(named)
                elif track.is_unrecorded and track.is_out:
                    self.add(track)
        for track, late in self._late.items():
            known = absences.get(track.member.writer) or _late_rows(track)
            absences[known.writer] = known._replace(late=late)
        self._late.clear()
        return tuple(absences[writer] for writer in sorted(absences))

    def returned(self, lower: int) -> tuple[str, ...]:
        """Return who is missing no longer as of the mark at `lower`, but for those removed."""
        found = self._back.items()
        back = sorted(writer for writer, track in found if not track.is_missed_at(lower))
        self._back.clear()
        self.missing.difference_update(back)
        return tuple(back)

    def _miss(self, named: Absence) -> None:
        if named.reason == "removed":
            self.missing.discard(named.writer)
        else:
            self.missing.add(named.writer)


def _is_to_be_named(track: Track, lower: int) -> bool:
    return track.is_unrecorded and track.is_out and track.time < lower


def absence_of(track: Track, last_lower: int | None) -> Absence:
    """Return what the ledger says of a member that a mark goes on without."""
    member, time = track.member, track.noted
    missing_from = time
    if time is None and member.heard_at is not None:
        missing_from = last_lower
    return Absence(
        member.writer,
        time,
        dict(member.position),
        member.excluded or "returned_late",
        None,
        track.exclusion and track.exclusion.since,
        missing_from,
    )


def _late_rows(track: Track) -> Absence:
    return Absence(track.member.writer, track.noted, dict(track.member.position), "late_rows")
