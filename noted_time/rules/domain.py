"""One time domain of a stream: which members hold its watermark, and how it advances.

The *lower* is the time of the last mark. The watermark waits for every live member that vouches for
the domain and is not excluded. Such a member is *ahead* if its time is above the lower, otherwise
it *holds*.

Once none holds, the least time ahead becomes the next lower, and the members at it hold. Members
ahead are queued by time, so a note costs O(log members).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from noted_time.rules.member import BEFORE_ALL_TIME, Lead, Member, MemberRecord, Role, Track
from noted_time.rules.queues import BATCH_SIZE, Absences, Ahead, Timeouts
from noted_time.rules.running_cut import RunningCut
from noted_time.rules.segments import Sharing
from noted_time.values import (
    FROM_FIRST_MARK,
    MAX_INT64,
    Absence,
    Advance,
    ExcludedSince,
    Mark,
    MissingReason,
    MissingWriter,
    VouchingPeriod,
    reaches,
)

NOT_COUNTED: tuple[Role, Role] = ("inactive", "late")


class Domain:
    """The running state of one domain; `now` and `moved_at` are on the service clock.

    Attributes:
    - `moved_at`: when the last mark was appended or, without a mark, the domain was declared.
    - `undeclared`: the number of members that wrote rows without declaring their event times.
    - `is_unbounded`: whether rows of a forgotten or removed member may be above later uppers.
    - `last_writer`: the member that the last mark waited for last. `None` if it was excluded.

    `_peak` is the highest time noted so far, and `_leader` the first member that noted it.
    `_highest` leaves out members removed or started again since, so it can be lower.
    """

    def __init__(
        self, name: str, sharing: Sharing, last: Mark | None = None, moved_at: int = 0
    ) -> None:
        self.name = name
        self.sharing = sharing
        self.last = last
        self.lower = last.lower if last else BEFORE_ALL_TIME
        self.moved_at = moved_at
        self.tracks: Callable[[], Iterable[Track]] = tuple
        self._highest = BEFORE_ALL_TIME
        self._is_highest_stale = False
        self._peak = BEFORE_ALL_TIME
        self._leader = Track(Member(""), Lead())
        self.upper = last.upper if last else BEFORE_ALL_TIME
        self.undeclared = 0
        self.is_unbounded = False
        self.is_sealed = False
        self.holders: dict[str, Track] = {}
        self.late: dict[str, Track] = {}
        self.late_rows = 0
        self.last_writer: str | None = None
        self._released_by: str | None = None
        self.excluded_by_mark: tuple[Absence, ...] = ()
        self.returned: tuple[str, ...] = ()
        self.joined: tuple[Absence, ...] = ()
        self.newcomers: dict[str, Member] = {}
        self.forgotten_lower: int | None = None
        self.absences = Absences()
        self.timeouts = Timeouts()
        self.cut = RunningCut(self.lower, last.cut if last else None)
        self._ahead = Ahead()

    def note(  # noqa: C901, PLR0912 - few calls, because it runs for every note
        self, track: Track, time: int | None, max_time: int | None, now: int
    ) -> None:
        if max_time is not None:
            if max_time == time:
                max_time = time  # one shared object needs less of the CPU cache
            if track.max_time is None or max_time > track.max_time:
                track.max_time = max_time
            if track.is_undeclared:
                track.is_undeclared = False
                self.undeclared -= 1
            if max_time > self.upper:  # noqa: PLR1730 - `max` would cost two calls a note
                self.upper = max_time
        if time is None:
            return
        if time > self.lower:
            track.returned_late = False
        if time > track.time:  # noqa: PLR1730
            track.time = time
        if time >= self._highest:
            self._highest = time
            leader = self._leader
            lead = leader.lead
            if time > self._peak:
                self._peak = time
                if isinstance(lead, Lead):
                    lead.overtaken_at = now
                elif leader is not track:
                    leader.lead = now
                track.lead = None
                self._leader = track
            elif time == self._peak and leader is not track:
                if lead is None:
                    lead = leader.lead = Lead()
                track.lead = lead
        if track.max_time is None:
            if time > self.upper:  # noqa: PLR1730
                self.upper = time
            self.record_undeclared(track)

    def record_undeclared(self, track: Track) -> None:
        if not track.is_undeclared:
            track.is_undeclared = True
            self.undeclared += 1

    def create_track(self, member: Member) -> Track:
        lead = self._leader.lead if self._peak == BEFORE_ALL_TIME else BEFORE_ALL_TIME
        return Track(member, lead, vouches_here=member.vouches_for(self.name))

    def update_role(  # noqa: C901 - one branch for each role
        self, track: Track, timeout_ms: int, now: int
    ) -> None:
        member = track.member
        role: Role
        if member.excluded or member.state != "live" or not track.vouches_here:
            role = "inactive"
        elif track.returned_late:
            role = "late"
        else:
            role = "ahead" if track.time > self.lower else "holds"
        if role != track.role:
            is_recounted = role in NOT_COUNTED or track.role in NOT_COUNTED
            if track.role == "holds":
                del self.holders[member.writer]
                if not self.holders:
                    self._released_by = None if member.excluded else member.writer
            elif track.role == "late":
                del self.late[member.writer]
            track.role = role
            if role == "ahead":
                if not track.in_ahead:
                    track.in_ahead = True
                    self._ahead.push(track.time, track)
            elif role != "inactive":
                track.waiting_since = max(now, self.moved_at)
                (self.holders if role == "holds" else self.late)[member.writer] = track
                self.timeouts.add(track, timeout_ms)
            if is_recounted:
                self.update_vouching(track)
        if self.absences.missing:
            self.absences.check_returned(track, self.lower)

    def update_vouching(self, track: Track) -> None:
        """Update the ranges of marks that include the member's rows.

        If a member finished and the last cut covers its position, this begins with the last mark.
        If it was removed, it ends at the last mark, because its times do not count.
        """
        periods, member, last = track.vouching_periods, track.member, self.last
        is_finished = member.state == "finished" and not member.excluded and track.vouches_here
        if self.is_sealed or (track.role in NOT_COUNTED and not is_finished):
            is_removed = member.excluded == "removed"
            if periods and (periods[-1].is_open or is_removed):
                from_seq, until = periods[-1].from_seq, min(track.time, periods[-1].until)
                ended = (VouchingPeriod(from_seq, min(until, self.lower) if is_removed else until),)
                is_empty = track.noted is None or (
                    is_removed and not (last and from_seq <= last.seq)
                )
                track.vouching_periods = periods[:-1] + (() if is_empty else ended)
        elif not periods or not periods[-1].is_open:
            new = (VouchingPeriod(last.seq + 1, MAX_INT64),) if last else FROM_FIRST_MARK
            if (
                is_finished
                and last
                and member.has_written
                and reaches(last.cut.offsets, member.position)
            ):
                new = (VouchingPeriod(last.seq, MAX_INT64),)
            is_within = bool(periods) and periods[-1].from_seq >= new[0].from_seq
            track.vouching_periods = new if is_within else periods[-1:] + new

    @property
    def not_counted_yet(self) -> Iterator[MissingWriter]:
        for member in self.newcomers.values():
            if member.vouches_for(self.name):
                reason: MissingReason = "not_expected" if member.expected_at else "not_joined"
                yield MissingWriter(member.writer, reason, member.joined_at, None)

    def exclude_returned(self, track: Track, unix_ms: int) -> None:
        track.returned_late = True
        track.exclusion = track.exclusion or ExcludedSince("returned_late", unix_ms)
        self.absences.add(track, self.lower)

    def can_forget(self, track: Track) -> bool:
        member, last = track.member, self.last
        if self.absences.has_unreported(track):
            return False
        if last is None:
            return (track.time, track.max_time) == (BEFORE_ALL_TIME, None) and not member.position
        cut, is_removed = last.cut.offsets, member.excluded == "removed"
        # the cut needs the segment, which a later scale event may give predecessors
        return (
            is_removed or (track.time <= last.lower and track.largest_time <= last.upper)
        ) and all(cut.get(segment, -1) >= offset for segment, offset in member.position.items())

    def forget(self, track: Track, *, cut_may_pass: bool) -> None:
        """Drop a departed member; `cut_may_pass` if the cut may cover rows that it did not note."""
        self.undeclared -= track.is_undeclared
        self.is_unbounded = self.is_unbounded or track.is_undeclared or cut_may_pass
        self.newcomers.pop(track.member.writer, None)
        self.forgotten_lower = self.last.lower if self.last else None

    @property
    def highest(self) -> int:
        if self._is_highest_stale:
            self._highest, self._is_highest_stale = self._find_highest(()), False
        return self._highest

    @property
    def leader(self) -> str | None:
        """The first member that noted the highest time, if it is still known."""
        return self._leader.member.writer or None

    def highest_time_excluding(self, excluding: Collection[str]) -> tuple[int, int]:
        """Return the highest time noted by other members, and when one of them noted last."""
        time = self._find_highest(excluding) if excluding else self.highest
        leaders = (
            each.member.noted_at
            for each in self._tracks_not_removed(excluding)
            if each.time == time
        )
        return time, min(leaders, default=0)

    def _find_highest(self, excluding: Collection[str]) -> int:
        return max(
            (each.time for each in self._tracks_not_removed(excluding)), default=BEFORE_ALL_TIME
        )

    def _tracks_not_removed(self, excluding: Collection[str] = ()) -> Iterator[Track]:
        return (
            each
            for each in self.tracks()
            if each.member.excluded != "removed" and each.member.writer not in excluding
        )

    def ignore_removed_times(self, removed: int = BEFORE_ALL_TIME) -> None:
        """Ignore the times of a removed member, which noted times up to `removed`.

        Otherwise a wrong clock would set the upper forever, and the lower once no member is live.
        """
        self._is_highest_stale = True
        highest, since = self.highest_time_excluding(())
        is_highest_lower = self.lower <= highest < self._peak
        if highest < self._peak:
            self._reset_highest(max(highest, self.lower))
        largest_time = self.lower
        for track in self._tracks_not_removed():
            if track.time < min(removed, highest):
                track.lead = since
            elif is_highest_lower and track.time == highest:
                track.lead = self._leader.lead
            largest_time = max(largest_time, track.largest_time)
        if largest_time < self.upper:
            self.upper, self.is_unbounded = largest_time, True

    def _reset_highest(self, time: int) -> None:
        self._peak, self._leader = time, Track(Member(""), Lead())

    def reset_track(self, old: Track, max_time: int | None, timeout_ms: int) -> Track:
        """Return a new track for the member, which may then note any time.

        The next cut covers all earlier rows, because they may have any time. The old track gets a
        finished member, so that queues drop it.
        """
        member = old.member
        old.vouches_here = old.returned_late = False
        self.update_role(old, timeout_ms, 0)
        self._is_highest_stale = True
        self.undeclared -= old.is_undeclared
        self.cut.add(BEFORE_ALL_TIME, member.position)
        old.member = Member(member.writer, "finished")
        new = self.create_track(member)
        new.max_time, new.exclusion, new.first_time = max_time, old.exclusion, old.first_time
        new.vouching_periods = tuple(e for e in old.vouching_periods[-1:] if e.until == old.time)
        if member.has_written and (old.is_undeclared or max_time is None):
            self.record_undeclared(new)
        return new

    def restore(self, track: Track, record: MemberRecord) -> None:
        time, max_time = record.times.get(self.name), record.max_times.get(self.name)
        self.cut.add(BEFORE_ALL_TIME, record.position)
        self.note(track, time, max_time, record.noted_at)
        if self.name in record.undeclared or (track.member.has_written and max_time is None):
            self.record_undeclared(track)
        track.returned_late = self.name in record.returned_late
        track.exclusion = record.exclusions.get(self.name)
        if not (track.vouches_here and track.is_excluded):
            return
        is_missing = record.writer in self.absences.missing
        is_removed = record.excluded == "removed"
        is_above = time is not None and time >= self.lower and not is_removed
        is_new = self.last is None and track.is_for_first_mark
        # a mark that reports a removal names the writer, which is not missing afterwards
        is_named = self.last is not None and record.writer in self.last.excluded
        is_reported = (is_named and not is_missing) if is_removed else is_missing
        is_unreported = record.since == self.moved_at and not is_reported
        if is_above or is_new or is_unreported or record.since > self.moved_at:
            if record.state == "live" or is_missing:
                self.absences.add(track, self.lower)
        elif not is_removed:
            self.absences.missing.add(record.writer)  # the ledger may have dropped its entry

    def restore_vouching(self, track: Track, record: MemberRecord) -> None:
        track.vouching_periods = record.vouching.get(self.name, FROM_FIRST_MARK)
        track.first_time = record.first_times.get(self.name)
        if not self._joined_since_last_mark(track, record.joined_at):
            self.newcomers.pop(record.writer, None)

    def _joined_since_last_mark(self, track: Track, joined_at: int | None) -> bool:
        if self.last is None or joined_at is None or joined_at < self.last.written_at:
            return False
        return all(each.from_seq > self.last.seq for each in track.vouching_periods)

    def finish_restore(self, last_note_at: int, timeout_ms: int) -> None:
        """Restore the state that depends on all members, after the last `restore`.

        Overtakings are not stored: all members below the highest time get `last_note_at`.
        """
        self.holders, self.late = _sort_longest_first(self.holders), _sort_longest_first(self.late)
        removed = [each for each in self.tracks() if each.member.excluded == "removed"]
        if removed:
            is_upper_of_removed = any(each.largest_time == self.upper for each in removed)
            upper = self.upper
            self.ignore_removed_times()
            if not is_upper_of_removed:
                self.upper = upper
        if self._peak < self.lower:  # the member that noted it was forgotten
            self._reset_highest(self.lower)
        for track in self.tracks():
            if track.time < self._peak:
                track.lead = last_note_at
        self.timeouts.requeue_all([*self.holders.values(), *self.late.values()], timeout_ms)

    def next_step(self) -> Advance | None:
        """Return how far the watermark may advance, or `None`.

        A late live member prevents a flush, as in Flink's valve.
        """
        if self.holders or self.is_sealed or not self._ahead.settle(self.lower):
            return None
        least_time = self._ahead.least
        if least_time is not None:
            return Advance(least_time)
        if self.late or self.highest <= self.lower:
            return None
        return Advance(self.highest, flush=True)

    def find_holders(self) -> Mapping[str, Track]:
        if self.holders or (self.next_step() is None and self.highest > self.lower):
            return self.holders or self.late
        return {}

    @property
    def is_quiet(self) -> bool:
        return self.is_settled and self.next_step() is None and not self.find_holders()

    def next_step_excluding(self, names: AbstractSet[str]) -> Advance | None:
        if self.is_sealed or self._ahead.has_before(self.lower + 1):
            return None
        if any(writer not in names for writer in self.holders):
            return None
        _, least_time = self._ahead.skip_while(lambda track: track.member.writer in names)
        if least_time is not None:
            return Advance(least_time)
        if self.highest <= self.lower or any(writer not in names for writer in self.late):
            return None
        return Advance(self.highest, flush=True)

    def next_timeout(self, timeout_ms: int) -> int | None:
        times = [self.timeouts.next]
        if not self.holders and self._ahead.first_time() is not None:
            times.append(self._ahead.peek()[-1].excluded_at(timeout_ms))
        return min((time for time in times if time is not None), default=None)

    def next_to_exclude(self, times_out: Callable[[Track], bool]) -> list[Track]:
        """Return the members ahead that would time out as soon as they hold, if all holders have.

        The caller excludes them now, or the watermark would stop at their time.
        """
        if self._ahead.has_before(self.lower + 1) or not all(map(times_out, self.holders.values())):
            return []
        return self._ahead.skip_while(times_out)[0]

    def is_bound(self, cut: Mapping[int, int]) -> bool:
        return not self.undeclared and not self.is_unbounded and self.sharing.is_noted(cut)

    def advance(self, step: Advance, *, now: int, written_at: int, timeout_ms: int) -> Mark:
        lower = step.lower
        self.last_writer, self._released_by = self._released_by, None
        self.returned = self.absences.pop_returned(lower)
        self.excluded_by_mark = self.absences.pop_reported(
            lower, self.last.lower if self.last else None
        )
        self.joined = self._pop_newcomers()
        cut = self.cut.at(lower)
        self.last = Mark(
            seq=self.last.seq + 1 if self.last else 1,
            lower=lower,
            upper=self.upper,
            cut=cut,
            written_at=written_at,
            excluded=tuple(each.writer for each in self.excluded_by_mark),
            upper_is_bound=self.is_bound(cut.offsets),
        )
        self.lower = lower
        self.moved_at = now
        self.settle(timeout_ms)
        return self.last

    def _pop_newcomers(self) -> tuple[Absence, ...]:
        newcomers = self.not_counted_yet
        start = self.forgotten_lower  # a forgotten member may have had its name
        joined = tuple(
            Absence(each.writer, None, {}, each.reason, each.since, start) for each in newcomers
        )
        self.newcomers.clear()
        return joined

    @property
    def is_settled(self) -> bool:
        return bool(self.holders) or self._ahead.settle(self.lower)

    def settle(self, timeout_ms: int) -> bool:
        """Let up to `BATCH_SIZE` members that the last mark reached hold; return whether all do.

        So an advance past a million members does not block.
        """
        lower, ahead = self.lower, self._ahead
        for track in ahead.take(lower, BATCH_SIZE):
            if track.role == "ahead" and track.time > lower:  # its queue entry was too low
                ahead.push(track.time, track)
                continue
            track.in_ahead = False
            if track.role == "ahead":
                track.role = "holds"
                track.waiting_since = self.moved_at
                self.holders[track.member.writer] = track
                if track.timeout_queued is None:
                    self.timeouts.add(track, timeout_ms)
        return not ahead.has_before(lower + 1) and self.is_settled


def _sort_longest_first(members: Mapping[str, Track]) -> dict[str, Track]:
    return dict(sorted(members.items(), key=lambda each: each[1].waiting_since))
