"""Which members the marks of a domain count.

A member that no mark counts yet has not *joined*. From the next mark on it is *counted*, as long as
it is live, or has finished. Otherwise it is *idle*, or *absent*: excluded, removed, narrowed, or
back below the lower. A member is *narrowed* if it dropped the domain after the domain's first mark.

| from | to | when |
|---|---|---|
| not joined | counted | the next mark, whose entry in the ledger names the writer |
| counted | idle | it notes so; its last time ends the spell |
| counted, idle | absent | it times out, is removed, drops the domain, or returns below the lower |
| absent | missing | the first mark above its time; of a removed member the next mark |
| missing | counted | the first mark that counts it again, whose entry names the return |
| narrowed | not joined | it finishes, is removed, or an operator says so |
| idle | counted | it is live again, from the next mark on |

The facts of a member are its `Timeline`, one value for each domain. A timeline that changes is
stored as one row, and a restart reads it.

The last mark of a sealed stream names the members that are absent, and as `sealed` those live ones
that noted no time in the domain. Who is counted is not named: the final cut has its rows.

Invariants, with their tests in `tests/core`:

1. Each mark counts who is live or finished, and names who is missing (`test_timeline`). A member's
   spells rise and do not overlap, and the last two are kept.
2. Every absence that a mark passed is reported by exactly one mark (`test_missing`).
3. `missing` has the writers that the last mark lacks, removed ones excepted (`test_agreement`).
4. A restart changes no member of the roster (`test_agreement`).

It keeps invariant 5 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from noted_time.rules.member import BEFORE_ALL_TIME, NOT_COUNTED, Member, Timeline, Track
from noted_time.rules.queues import TimeQueue
from noted_time.values import (
    FROM_FIRST_MARK,
    Absence,
    Exclusion,
    Mark,
    MissingReason,
    Note,
    Spell,
    reaches,
)


class Roster:
    """The members of one domain, as far as its marks count them.

    Attributes:
    - `last`: the last mark.
    - `missing`: the writers that the last mark excludes, including forgotten, but not removed ones.
    - `absences`, `returned` and `joined`: the writers in the ledger's entry of the last mark.
    - `forgotten_lower`: the lower when a member was last forgotten.
    """

    def __init__(self, domain: str, last: Mark | None = None) -> None:
        self.domain = domain
        self.last = last
        self.is_sealed = False
        self.missing: set[str] = set()
        self.absences: tuple[Absence, ...] = ()
        self.returned_writers: tuple[str, ...] = ()
        self.joined: tuple[Absence, ...] = ()
        self.newcomers: dict[str, Track] = {}
        self.forgotten_lower: int | None = None
        self._unreported: TimeQueue[Track] = TimeQueue()
        self._returning: dict[str, Track] = {}

    @property
    def lower(self) -> int:
        return self.last.lower if self.last else BEFORE_ALL_TIME

    def join(self, member: Member, track: Track) -> None:
        if self.last and member.writer not in self.missing:
            self.newcomers[member.writer] = track
            track.change(joined_after_seq=self.last.seq)

    @property
    def not_joined(self) -> Iterator[Absence]:
        for member in (each.member for each in self.newcomers.values()):
            if member.vouches_for(self.domain):
                reason: MissingReason = "not_expected" if member.expected_at else "not_joined"
                yield Absence(member.writer, reason, member.joined_at, None)

    def update_spells(self, track: Track) -> None:
        """Update the ranges of marks that include the member's rows.

        If a member finished and the last cut covers its position, this begins with the last mark.
        If it was removed, it ends at the last mark, because its times do not count.
        """
        spells, member, last = track.timeline.spells, track.member, self.last
        is_finished = member.state == "finished" and not member.excluded and track.vouches_here
        if self.is_sealed or (track.role in NOT_COUNTED and not is_finished):
            is_removed = member.excluded == "removed"
            if spells and (spells[-1].to_time is None or is_removed):
                from_seq, until = spells[-1].from_seq, min(track.time, spells[-1].end)
                ended = (Spell(from_seq, min(until, self.lower) if is_removed else until),)
                is_empty = track.noted is None or (
                    is_removed and not (last and from_seq <= last.seq)
                )
                track.change(spells=spells[:-1] + (() if is_empty else ended))
        elif not spells or spells[-1].to_time is not None:
            new = (Spell(last.seq + 1),) if last else FROM_FIRST_MARK
            if (
                is_finished
                and last
                and member.has_written
                and reaches(last.cut.offsets, member.position)
            ):
                new = (Spell(last.seq),)
            is_within = bool(spells) and spells[-1].from_seq >= new[0].from_seq
            track.change(spells=new if is_within else spells[-1:] + new)

    def record_first_note(self, track: Track, note: Note) -> None:
        if note.time is not None and note.time < self.lower:
            track.change(first_time=note.time)
        if note.from_time is not None and track.member.writer in self.newcomers:
            track.change(from_time=note.from_time)

    def list_spells(self, track: Track, from_seq: int = 0) -> tuple[Spell, ...]:
        """Return the member's spells, and one that its first note stated with `from_time`.

        The member has no rows before this time, so marks before it joined lack none. Mark
        `from_seq` has the rows of forgotten writers. One of them may have had its name.
        """
        timeline, member = track.timeline, track.member
        spells, since = timeline.spells, timeline.from_time
        is_counted_later = bool(spells) and spells[0].from_seq > from_seq
        is_out = member.excluded == "removed" or not track.vouches_here
        if since is None or is_out or not is_counted_later:
            return spells
        late = (member.late_rows or {}).get(self.domain)
        times = (since, timeline.first_time, late.min_time if late else None)
        return (*spells, Spell(from_seq, min(time for time in times if time is not None)))

    def exclude(self, track: Track) -> None:
        """Report the member at the first mark above its time; a removed one at the next mark."""
        track.change(absent_after_seq=self.last.seq if self.last else 0)
        self._queue(track)

    def _queue(self, track: Track) -> None:
        is_removed = track.member.excluded == "removed"
        if is_removed or not track.is_queued_as_absent:
            track.is_queued_as_absent = True
            self._unreported.push(min(track.time, self.lower) if is_removed else track.time, track)

    def is_unreported(self, track: Track) -> bool:
        """Return whether the member is absent, but no mark has reported it."""
        after, last = track.timeline.absent_after_seq, self.last
        if after is None or last is None or after == last.seq:
            return after is not None
        return not (track.is_passed_by(last.lower) or track.member.writer in self.missing)

    def exclude_returned(self, track: Track, unix_ms: int) -> None:
        exclusion = track.timeline.exclusion or Exclusion("returned_below", unix_ms)
        track.change(returned_below=True, exclusion=exclusion)
        self.exclude(track)

    def narrow(self, track: Track) -> None:
        """Report a member that drops the domain, which is no absence before the first mark."""
        if self.last is not None:
            track.change(narrowed_at=track.member.heard_at or 0)
            self.exclude(track)

    def end_narrowing(self, track: Track) -> None:
        track.change(narrowed_at=None, absent_after_seq=None)
        self.check_returned(track)

    def check_returned(self, track: Track) -> None:
        if track.member.writer not in self.missing:
            return
        if track.is_missing_at(self.lower + 1):
            self._returning.pop(track.member.writer, None)
        else:
            self._returning[track.member.writer] = track

    def is_missing(self, track: Track) -> bool:
        return track.member.writer in self.missing or self.is_unreported(track)

    def has_unreported(self, track: Track) -> bool:
        is_excluded = track.member.excluded is not None
        return track.member.writer in self._returning or (is_excluded and self.is_unreported(track))

    def _is_due(self, track: Track, lower: int) -> bool:
        return track.is_excluded and track.is_passed_by(lower) and self.is_unreported(track)

    def list_reported(self, lower: int) -> Iterator[Track]:
        """Yield the members that a mark at `lower` would report."""
        return (each for each in self._unreported.iter_before(lower) if self._is_due(each, lower))

    def report(self, lower: int) -> None:
        """Find who is missing, returned and joined at the next mark, at `lower`."""
        self.report_returned(lower)
        self.absences = self.pop_absences(lower)
        self.joined = self._pop_newcomers() if self.newcomers else ()

    def report_returned(self, lower: int) -> None:
        self.returned_writers = ()
        if not self._returning:
            return
        returning = self._returning.items()
        back = sorted(writer for writer, track in returning if not track.is_missing_at(lower))
        self._returning.clear()
        self.missing.difference_update(back)
        self.returned_writers = tuple(back)

    def pop_absences(self, lower: int) -> tuple[Absence, ...]:
        absences: dict[str, Absence] = {}
        last_lower = self.last.lower if self.last else None
        while self._unreported.has_before(lower):
            for track in self._unreported.pop():
                track.is_queued_as_absent = False
                if self._is_due(track, lower):
                    writer = track.member.writer
                    absences[writer] = named = absence_of(track, last_lower)
                    if named.reason == "removed":
                        self.missing.discard(writer)
                    else:
                        self.missing.add(writer)
                elif track.is_excluded and self.is_unreported(track):
                    self._queue(track)
        return tuple(absences[writer] for writer in sorted(absences))

    def _pop_newcomers(self) -> tuple[Absence, ...]:
        start = self.forgotten_lower  # a forgotten member may have had its name
        joined = tuple(
            Absence(each.writer, each.reason, each.began_at, None, {}, start)
            for each in self.not_joined
        )
        self.newcomers.clear()
        return joined

    def forget(self, member: Member) -> None:
        self.newcomers.pop(member.writer, None)
        self.forgotten_lower = self.last.lower if self.last else None

    def restore(self, track: Track, timeline: Timeline) -> None:
        track.timeline = track.stored = timeline
        if not track.is_excluded:
            return
        if timeline.absent_after_seq is None and track.is_for_first_mark:
            track.change(absent_after_seq=0)  # the domain was added later
        if self.is_unreported(track):
            self._queue(track)
        elif track.timeline.absent_after_seq is not None and track.member.excluded != "removed":
            self.missing.add(track.member.writer)  # the ledger may have dropped its entry

    def restore_newcomer(self, track: Track) -> None:
        if self.last is None or track.timeline.joined_after_seq != self.last.seq:
            self.newcomers.pop(track.member.writer, None)


def absence_of(track: Track, last_lower: int | None) -> Absence:
    member, time = track.member, track.noted
    from_time = time
    if time is None and member.heard_at is not None:
        from_time = last_lower
    elif time is not None and last_lower is not None and member.excluded == "removed":
        from_time = min(time, last_lower)
    reason: MissingReason = member.excluded or "returned_below"
    timeline = track.timeline
    since = timeline.exclusion.excluded_at if timeline.exclusion else None
    if timeline.narrowed_at is not None:
        reason, since = "narrowed", timeline.narrowed_at
    return Absence(member.writer, reason, since, time, dict(member.position), from_time)
