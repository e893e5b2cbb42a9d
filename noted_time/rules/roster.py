"""Which members the marks of a domain count.

A member that no mark counts yet has not *joined*. From the next mark on it is *counted*, as long as
it is live, or has finished. Otherwise it is *idle*, or *absent*: excluded, removed, narrowed, or
back below the lower. A member is *narrowed* if it dropped the domain after the domain's first mark.

The first mark that counts a member names it as joined. The first mark above the time of an absent
member names it, and it is *missing* from then on. It is missing until a mark counts it again, whose
entry names the return.

The facts of a member are its `Membership`, one value for each domain, which only the roster
changes. A membership that changes is stored as one row, and a restart reads it. A member without a
row vouches for nothing that is not certain: see `Roster.find_default`.

The last mark of a sealed stream names the members that are absent, and as `sealed` those live ones
that noted no time in the domain. It names who joined, too, as earlier marks lack their rows.

Invariants, with their tests in `tests/core`:

1. Each mark counts who is live or finished, and names who is missing (`test_timeline`). A member's
   spells rise and do not overlap, and the last two are kept.
2. Every absence that a mark passed is reported by exactly one mark (`test_missing`).
3. `missing` has the writers that the last mark lacks, removed ones excepted (`test_agreement`).
4. A restart changes no answer (`test_restart`).

It keeps invariant 5 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from noted_time.rules.member import BEFORE_ALL_TIME, NOT_COUNTED, Track
from noted_time.rules.membership import (
    ABSENT_AT_FIRST,
    ALWAYS_COUNTED,
    ALWAYS_FINISHED,
    NOT_JOINED,
    Membership,
    ReportedAbsence,
)
from noted_time.rules.queues import TimeQueue
from noted_time.values import (
    FROM_FIRST_MARK,
    MAX_INT64,
    WRITERS_NAMED,
    Absence,
    LateRows,
    Mark,
    MemberStatus,
    MissingReason,
    Note,
    Spell,
    StreamCut,
    reaches,
)

NO_OFFSETS: Mapping[int, int] = {}

STALE_ROW = Membership("not_joined", spells=(), joined_after_seq=-1)
"""Stands for a row that is to be stored again. No membership is equal to it."""


class Named(NamedTuple):
    """Writers that a mark at `lower` names, sorted by name."""

    lower: int = BEFORE_ALL_TIME
    absences: tuple[Absence, ...] = ()
    joined: tuple[Absence, ...] = ()
    returned_writers: tuple[str, ...] = ()

    def list_removed(self) -> list[str]:
        return [absence.writer for absence in self.absences if absence.reason == "removed"]


NO_WRITERS = Named()


def merge_named(parts: Iterable[Named]) -> Named:
    """Return all writers that the parts of a mark's entry name.

    >>> late, early = Absence("UA", "timed_out", 7, 5), Absence("DL", "timed_out", 7, 5)
    >>> parts = [Named(9, (late,)), Named(9, (early,))]
    >>> [each.writer for each in merge_named(parts).absences]
    ['DL', 'UA']
    """
    lower = BEFORE_ALL_TIME
    absences: list[Absence] = []
    joined_absences: list[Absence] = []
    returned_writers: list[str] = []
    for part in parts:
        lower = part.lower
        absences += part.absences
        joined_absences += part.joined
        returned_writers += part.returned_writers
    sorted_absences = sorted(absences, key=attrgetter("writer"))
    return Named(
        lower, tuple(sorted_absences), tuple(joined_absences), tuple(sorted(returned_writers))
    )


def choose_excluded(writers: Sequence[str]) -> tuple[tuple[str, ...], int | UnsetType]:
    """Return the excluded writers for a mark, and how many there are if these are not all."""
    count = len(writers) if len(writers) > WRITERS_NAMED else UNSET
    return tuple(writers[:WRITERS_NAMED]), count


class Naming:
    """Names the writers of the next mark of a domain, some at a time.

    `remaining` is how many are not named yet, and `has_removed` is whether it named a removed one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a mark, and whom it names
        self,
        roster: Roster,
        lower: int,
        cut: StreamCut,
        returned_tracks: list[Track],
        newcomer_tracks: list[Track],
        absent_tracks: list[Track],
    ) -> None:
        self.lower = lower
        self.cut = cut
        self._absent = absent_tracks
        self.remaining = len(returned_tracks) + len(newcomer_tracks) + len(absent_tracks)
        self.has_removed = False
        self._roster = roster
        self._returned_writers: list[str] = []
        self._joined: list[Absence] = []
        self._absences: list[Absence] = []
        self._tracks = self._name(returned_tracks, newcomer_tracks, absent_tracks)

    def take(self, limit: int = MAX_INT64, *, is_last: bool = True) -> Named:
        """Name at most so many writers. Unless these are the last ones, their rows may wait."""
        for track in islice(self._tracks, limit):
            self.remaining -= 1
            if not is_last:
                self._roster.postpone_row(track)
        named_writers = Named(
            self.lower,
            tuple(sorted(self._absences, key=attrgetter("writer"))),
            tuple(self._joined),
            tuple(self._returned_writers),
        )
        self._absences = []
        self._joined = []
        self._returned_writers = []
        return named_writers

    def list_excluded(self) -> tuple[tuple[str, ...], int | UnsetType]:
        return choose_excluded(sorted(track.member.writer for track in self._absent))

    def _name(
        self, returned_tracks: list[Track], newcomer_tracks: list[Track], absent_tracks: list[Track]
    ) -> Iterator[Track]:
        roster = self._roster
        cut = self.cut.offsets
        last_lower = roster.last_lower
        for track in returned_tracks:
            self._returned_writers.append(roster.name_returned(track))
            yield track
        for track in newcomer_tracks:
            self._joined += roster.name_joined(track)
            yield track
        for track in absent_tracks:
            absence = absence_of(track, last_lower)
            roster.report_absence(track, absence, self.lower, cut)
            self._absences.append(absence)
            self.has_removed = self.has_removed or absence.reason == "removed"
            yield track


class Roster:
    """The members of one domain, as far as its marks count them.

    Attributes:
    - `last`: the last mark.
    - `missing`: the members that the last mark excludes, but not removed ones.
    - `find_recorded`: finds the absence of a forgotten writer that the last mark excludes, in the
      records of marks. By default there are none.
    - `forgotten`: the absences of forgotten writers of which the records know nothing, or something
      else. These writers are in `missing`, too.
    - `named`: the writers that the last mark named, as far as they were not taken before.
    - `newcomers`: the members that joined since the last mark.
    - `unpublished`: the newcomers that the last mark named, until its readers see it.
    - `forgotten_lower`: the lower when a member was last forgotten.
    - `unstored`: the writers whose membership has changed since it was stored.
    - `postponed`: the writers whose rows may be stored later, see `postpone_row`.
    - `declared_served_ms`: when the domain was added to the stream (service clock), if it was.
    """

    def __init__(self, domain: str, last: Mark | None = None) -> None:
        self.domain = domain
        self.last = last
        self.declared_served_ms: int | None = None
        self.is_sealed = False
        self.missing: set[str] = set()
        self.find_recorded: Callable[[str], ReportedAbsence | None] = find_nothing
        self.forgotten: dict[str, ReportedAbsence | None] = {}
        self.named = NO_WRITERS
        self.newcomers: dict[str, Track] = {}
        self.unpublished: dict[str, Track] = {}
        self.forgotten_lower: int | None = None
        self.unstored: set[str] = set()
        self.postponed: dict[str, None] = {}
        self._unreported: TimeQueue[Track] = TimeQueue()
        self._queued_count = 0
        self._returning: dict[str, Track] = {}

    @property
    def lower(self) -> int:
        if self.last:
            return self.last.lower
        return BEFORE_ALL_TIME

    @property
    def last_lower(self) -> int | None:
        return self.last.lower if self.last else None

    @property
    def last_seq(self) -> int:
        """The seq of the last mark, 0 if there is none."""
        return self.last.seq if self.last else 0

    def change(self, track: Track, status: MemberStatus, began_at: int | None = None) -> None:
        """Change the status of a member, which began at `began_at` (Unix ms).

        It may leave the member absent, so that a mark has to name it.
        """
        membership = track.membership
        if membership.status == status:
            return
        is_missing = self.is_missing(track)
        self._keep(track, membership.change(status, began_at, is_missing=is_missing))
        if track.membership.is_unreported:
            self._queue(track)
        self.check_returned(track)

    def _keep(self, track: Track, membership: Membership) -> None:
        writer = track.member.writer
        if membership.reported is not None:
            self.missing.add(writer)
        elif track.membership.reported is not None:
            self.missing.discard(writer)
            self._returning.pop(writer, None)
        track.membership = ALWAYS_COUNTED if membership == ALWAYS_COUNTED else membership
        self.unstored.add(writer)

    def find_default(self, track: Track) -> Membership:
        """Return the membership of a member without a row.

        Marks count it from the first one on if it is live, or finished after the domain was
        declared. Nothing else is certain, so it has not joined. A member that had timed out when
        the domain was declared is named by the domain's first mark.
        """
        member = track.member
        if not track.vouches_here:
            return NOT_JOINED
        if member.excluded is None and member.state == "live":
            return ALWAYS_COUNTED
        if member.excluded is None and member.state == "finished":
            declared_served_ms = self.declared_served_ms
            has_counted = (
                declared_served_ms is None or member.changed_served_ms > declared_served_ms
            )
            if has_counted:
                return ALWAYS_FINISHED
            return NOT_JOINED
        has_timed_out = member.excluded is not None and member.excluded != "removed"
        if has_timed_out and member.state == "live" and self.last is None:
            return ABSENT_AT_FIRST
        return NOT_JOINED

    def find_row(self, track: Track) -> Membership | None:
        """Return the membership to store, or `None` if it needs no row."""
        membership = track.membership
        if membership == self.find_default(track):
            return None
        return membership

    def join(self, track: Track) -> None:
        """Add a new member, which the last mark cannot have counted.

        If marks lack a forgotten member of its name, it returns instead.
        """
        writer = track.member.writer
        if writer in self.forgotten:
            reported_absence = self.forgotten.pop(writer)
        else:
            reported_absence = self.find_recorded(writer)
        if reported_absence is not None:
            self._keep(track, replace(track.membership, reported=reported_absence))
        elif self.last is not None:
            self._add_newcomer(track, None)

    def widen(self, track: Track, unix_ms: int) -> None:
        """Let a member join the domain that it did not vouch for before, if this has marks."""
        membership = track.membership
        is_new = not membership.spells and membership.reported is None
        if is_new and self.last is not None and not membership.is_absent:
            self._add_newcomer(track, unix_ms)

    def _add_newcomer(self, track: Track, widened_at: int | None) -> None:
        self.newcomers[track.member.writer] = track
        membership = replace(
            track.membership, joined_after_seq=self.last_seq, widened_at=widened_at
        )
        self._keep(track, membership)

    def declare(self, track: Track) -> None:
        """Add a member of a stream to which the domain is added."""
        track.membership = self.find_default(track)
        if track.membership.is_unreported:
            self._queue(track)

    @property
    def not_joined(self) -> Iterator[Absence]:
        return self._describe_newcomers(self.newcomers.values())

    @property
    def not_covered(self) -> Iterator[Absence]:
        """The newcomers to the last mark that readers see."""
        tracks = chain(self.unpublished.values(), self.newcomers.values())
        return self._describe_newcomers(tracks)

    def publish_joined(self, writers: Iterable[str]) -> None:
        for writer in writers:
            self.unpublished.pop(writer, None)

    def _describe_newcomers(self, tracks: Iterable[Track]) -> Iterator[Absence]:
        had_forgotten = self.forgotten_lower is not None  # a forgotten member may have had its name
        for track in tracks:
            member = track.member
            widened_at = track.membership.widened_at
            if not member.vouches_for(self.domain):
                continue
            reason: MissingReason = "not_joined"
            if member.expected_at and widened_at is None:
                reason = "not_expected"
            joined_at = member.joined_at if widened_at is None else widened_at
            yield Absence(
                member.writer,
                reason,
                joined_at,
                None,
                may_have_been_member=True if had_forgotten else UNSET,
            )

    def update_spells(self, track: Track) -> None:
        """Update the ranges of marks that include the member's rows.

        A finished member whose rows are all in the last cut counts from that mark on. A removed
        member counts up to the last mark, because its times do not count.
        """
        member = track.member
        last = self.last
        spells = track.membership.spells
        has_open_spell = bool(spells) and spells[-1].to_time is None
        is_finished = track.membership.status == "finished"
        if self.is_sealed or (track.role in NOT_COUNTED and not is_finished):
            if has_open_spell or (spells and member.excluded == "removed"):
                self._end_spell(track)
            return
        if has_open_spell:
            return
        if self._goes_on(track):
            new_spell = Spell(spells[-1].from_seq)
        elif last is None:
            (new_spell,) = FROM_FIRST_MARK
        elif is_finished and member.has_written and reaches(last.cut.offsets, member.position):
            new_spell = Spell(last.seq)
        else:
            new_spell = Spell(last.seq + 1)
        if spells and spells[-1].from_seq >= new_spell.from_seq:
            self._set_spells(track, (new_spell,))
        else:
            self._set_spells(track, (*spells[-1:], new_spell))

    def _end_spell(self, track: Track) -> None:
        *earlier_spells, last_spell = track.membership.spells
        to_time = min(track.time, last_spell.end)
        is_empty = track.noted is None
        if track.member.excluded == "removed":
            to_time = min(to_time, self.lower)
            is_empty = is_empty or self.last is None or last_spell.from_seq > self.last.seq
        if not is_empty:
            earlier_spells.append(Spell(last_spell.from_seq, to_time))
        self._set_spells(track, tuple(earlier_spells))

    def _goes_on(self, track: Track) -> bool:
        """Return whether a member that had timed out returns before a mark has passed it."""
        membership = track.membership
        has_returned = membership.status == "counted" and membership.reason == "timed_out"
        if not has_returned or not membership.spells:
            return False
        return membership.spells[-1].end >= self.lower

    def _set_spells(self, track: Track, spells: tuple[Spell, ...]) -> None:
        self._keep(track, replace(track.membership, spells=spells))

    def record_first_note(self, track: Track, note: Note) -> None:
        if note.time is not None and track.membership.removed_spell is not None:
            self._resume(track, note.time)
        if note.time is not None and note.time < self.lower:
            self._keep(track, replace(track.membership, first_time=note.time))
        if note.from_time is not None and track.member.writer in self.newcomers:
            self._keep(track, replace(track.membership, from_time=note.from_time))

    def catch_up(self, track: Track) -> None:
        """Forget why the member was excluded."""
        self._keep(track, replace(track.membership, reason=None, began_at=None))

    def remove(self, track: Track, unix_ms: int) -> None:
        """Exclude a member as an operator asks, which may be a mistake."""
        membership = track.membership
        removed_spell = None
        if track.is_counted and track.noted is not None and membership.spells:
            removed_spell = Spell(membership.spells[-1].from_seq, track.time)
        self._keep(track, replace(membership, removed_spell=removed_spell))
        self.change(track, "removed", unix_ms)

    def _resume(self, track: Track, time: int) -> None:
        """Take back a removal if the writer's next time is not below its former one.

        This needs that all marks since are at or below the former time.
        """
        membership = track.membership
        former_spell = track.membership.removed_spell
        changed_membership = replace(membership, removed_spell=None)
        if former_spell is not None and time >= former_spell.end and self.lower <= former_spell.end:
            track.time = former_spell.end
            # an idle writer vouches for its time, and for none beyond
            to_time = time if membership.status == "idle" else None
            changed_membership = replace(
                changed_membership, spells=(Spell(former_spell.from_seq, to_time),)
            )
        self._keep(track, changed_membership)

    def list_spells(self, track: Track, from_seq: int = 0) -> tuple[Spell, ...]:
        """Return the member's spells, and one that its first note stated with `from_time`.

        The member has no rows before this time, so marks before it joined lack none. Mark
        `from_seq` has the rows of forgotten writers. One of them may have had its name.
        """
        member = track.member
        membership = track.membership
        spells = membership.spells
        from_time = membership.from_time
        is_counted_later = bool(spells) and spells[0].from_seq > from_seq
        is_out = member.excluded == "removed" or not track.vouches_here
        if from_time is None or is_out or not is_counted_later:
            return spells
        to_time = from_time
        if membership.first_time is not None:
            to_time = min(to_time, membership.first_time)
        late_rows: LateRows | None = (member.late_rows or {}).get(self.domain)
        if late_rows is not None:
            to_time = min(to_time, late_rows.min_time)
        return (*spells, Spell(from_seq, to_time))

    def _queue(self, track: Track) -> None:
        is_removed = track.member.excluded == "removed"
        if track.is_queued_as_absent and not is_removed:
            return
        time = track.time
        if is_removed:
            time = min(time, self.lower)
        track.is_queued_as_absent = True
        self._queued_count += 1
        self._unreported.push(time, track)

    def end_narrowing(self, track: Track) -> None:
        if track.is_narrowed:
            self.change(track, "not_joined")

    def check_returned(self, track: Track) -> None:
        if track.member.writer not in self.missing:
            return
        if track.is_missing_at(self.lower + 1):
            self._returning.pop(track.member.writer, None)
        else:
            self._returning[track.member.writer] = track

    def is_missing(self, track: Track) -> bool:
        return track.membership.is_unreported or track.membership.reported is not None

    def has_unreported(self, track: Track) -> bool:
        if track.member.writer in self._returning:
            return True
        return track.member.excluded is not None and track.membership.is_unreported

    def _is_due(self, track: Track, lower: int) -> bool:
        return track.membership.is_unreported and track.is_passed_by(lower)

    def list_reported(self, lower: int) -> Iterator[Track]:
        """Yield the members that a mark at `lower` would report."""
        for track in self._unreported.iter_before(lower):
            if self._is_due(track, lower):
                yield track

    def may_name_more_than(self, count: int) -> bool:
        """Return whether the next mark may have to name more writers."""
        return len(self._returning) + len(self.newcomers) + self._queued_count > count

    def begin_naming(self, lower: int, cut: StreamCut) -> Naming:
        """Begin to name who is missing, returned and joined at the next mark.

        The roster must not change until `Naming` has named all. Who joined before the last mark of
        a sealed stream stays a newcomer: no mark counts it.
        """
        returned_tracks = self._take_returned(lower)
        newcomer_tracks = [*self.newcomers.values()]
        absent_tracks = self._take_absent(lower)
        if not self.is_sealed:
            self.unpublished |= {
                writer: track
                for writer, track in self.newcomers.items()
                if track.member.vouches_for(self.domain)
            }
            self.newcomers.clear()
        return Naming(self, lower, cut, returned_tracks, newcomer_tracks, absent_tracks)

    def _take_returned(self, lower: int) -> list[Track]:
        returning_tracks = self._returning
        self._returning = {}
        returned_tracks: list[Track] = []
        for writer in sorted(returning_tracks):
            if not returning_tracks[writer].is_missing_at(lower):
                returned_tracks.append(returning_tracks[writer])
        return returned_tracks

    def _take_absent(self, lower: int) -> list[Track]:
        """Return whom a mark at `lower` has to name, by name, and those removed last."""
        absent_tracks: dict[str, Track] = {}
        later_tracks: list[Track] = []
        while self._unreported.has_before(lower):
            for track in self._unreported.pop():
                track.is_queued_as_absent = False
                self._queued_count -= 1
                if self._is_due(track, lower):
                    absent_tracks[track.member.writer] = track
                elif track.membership.is_unreported:
                    later_tracks.append(track)
        for track in later_tracks:
            self._queue(track)
        sorted_tracks = [absent_tracks[writer] for writer in sorted(absent_tracks)]
        return sorted(sorted_tracks, key=lambda track: track.member.excluded == "removed")

    def name_returned(self, track: Track) -> str:
        self._keep(track, replace(track.membership, reported=None))
        return track.member.writer

    def name_joined(self, track: Track) -> Iterator[Absence]:
        """Yield the newcomer as the ledger's entry of the next mark names it."""
        for absence in self._describe_newcomers((track,)):
            yield replace(absence, position=NO_OFFSETS, from_time=None)

    def postpone_row(self, track: Track) -> None:
        """Let the row of a named member be stored after the mark that names it.

        A restart completes the row from the ledger. This needs a row, and no removal.
        """
        membership = track.membership
        writer = track.member.writer
        is_removed = membership.status == "removed" or membership.removed_spell is not None
        if writer in self.unstored and track.stored is not None and not is_removed:
            self.unstored.discard(writer)
            self.postpone_again(track)

    def postpone_again(self, track: Track) -> None:
        track.stored = STALE_ROW
        self.postponed[track.member.writer] = None

    def report_absence(
        self, track: Track, absence: Absence, lower: int, cut: Mapping[int, int]
    ) -> None:
        """Keep the absence that the next mark, at `lower` with this cut, names."""
        membership = track.membership.report(absence, self.last_seq + 1)
        removed_spell = membership.removed_spell
        if removed_spell is not None:
            has_rows = reaches(cut, track.member.position)
            if lower > removed_spell.end or not has_rows:
                membership = replace(membership, removed_spell=None)
        self._keep(track, membership)

    def forget(self, track: Track) -> None:
        writer = track.member.writer
        reported_absence = track.membership.reported
        self.newcomers.pop(writer, None)
        self.unstored.discard(writer)
        self.postponed.pop(writer, None)
        self.forgotten_lower = self.last_lower
        if reported_absence == self.find_recorded(writer):
            self.missing.discard(writer)
        else:
            self.forgotten[writer] = reported_absence

    def add_forgotten(self, absences: Mapping[str, ReportedAbsence]) -> None:
        """Add the missing writers that have been forgotten, after a restart."""
        self.forgotten |= absences
        self.missing.update(absences)

    def drop_forgotten(self, writers: Iterable[str]) -> None:
        """Drop forgotten writers whose absence is too old to be kept."""
        for writer in writers:
            if self.forgotten.pop(writer, None) is not None:
                self.missing.discard(writer)

    def restore(self, track: Track, membership: Membership | None) -> None:
        track.stored = membership
        track.membership = self.find_default(track) if membership is None else membership
        if track.membership.reported is not None:
            self.missing.add(track.member.writer)
        if track.membership.is_unreported:
            self._queue(track)
        if self._is_newcomer(track):
            self.newcomers[track.member.writer] = track

    def _is_newcomer(self, track: Track) -> bool:
        """Return whether no mark has named that the member joined."""
        joined_after_seq = track.membership.joined_after_seq
        if self.last is None or not joined_after_seq:
            return False
        last_naming_seq = self.last.seq - 1 if self.last.final else self.last.seq
        return joined_after_seq == last_naming_seq


def find_nothing(_writer: str) -> None:
    return None


def absence_of(track: Track, last_lower: int | None) -> Absence:
    member = track.member
    time = track.noted
    membership = track.membership
    from_time = time
    if time is None and member.heard_at is not None:
        from_time = last_lower
    elif time is not None and member.excluded == "removed":
        from_time = None if last_lower is None else min(time, last_lower)
    reason: MissingReason = membership.status  # type: ignore[assignment]
    position = dict(member.position)
    return Absence(member.writer, reason, membership.began_at, time, position, from_time)
