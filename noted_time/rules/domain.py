"""One time domain of a stream: which members hold back its watermark, and how it advances.

The *lower* is the time of the last mark. The watermark waits for every live member that vouches for
the domain and is not excluded. Such a member is *ahead* if its time is above the lower, otherwise
it *holds back* the watermark.

Once none does, the least time ahead becomes the next lower, and the members at it hold it back.
Members ahead are queued by time, so a note costs O(log members).

It keeps invariant 2 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from noted_time.rules.member import (
    BEFORE_ALL_TIME,
    NOT_COUNTED,
    Lead,
    Member,
    MemberRecord,
    Role,
    Track,
)
from noted_time.rules.membership import NOT_JOINED, Membership
from noted_time.rules.queues import BATCH_SIZE, Ahead, Timeouts
from noted_time.rules.roster import Named, Naming, Roster
from noted_time.rules.running_cut import RunningCut
from noted_time.rules.segments import SegmentWriters
from noted_time.values import Advance, Mark


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
        self,
        name: str,
        segment_writers: SegmentWriters,
        last: Mark | None = None,
        moved_at: int = 0,
    ) -> None:
        self.name = name
        self.segment_writers = segment_writers
        self.roster = Roster(name, last)
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
        self.holding_back: dict[str, Track] = {}
        self.returned_below: dict[str, Track] = {}
        self.late_rows = 0
        self.last_writer: str | None = None
        self._released_by: str | None = None
        self.timeouts = Timeouts()
        self.cut = RunningCut(self.lower, last.cut if last else None)
        self._ahead = Ahead()
        self._naming: Naming | None = None

    @property
    def last(self) -> Mark | None:
        return self.roster.last

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
        if track.membership.status == "returned_below" and time > self.lower:
            self.roster.change(track, "counted")
        if time > track.time:  # noqa: PLR1730
            track.time = time
        if time >= self._highest:
            self._highest = time
            leader = self._leader
            lead = leader.lead
            if time > self._peak:
                self._peak = time
                if isinstance(lead, Lead):
                    lead.overtaken_served_ms = now
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

    def update_role(self, track: Track, timeout_ms: int, now: int) -> None:
        role: Role = "inactive"
        if track.membership.status == "returned_below":
            role = "returned_below"
        elif track.membership.status == "counted":
            role = "ahead" if track.time > self.lower else "holding_back"
        if role != track.role:
            is_recounted = role in NOT_COUNTED or track.role in NOT_COUNTED
            self._leave_role(track)
            track.role = role
            self._enter_role(track, timeout_ms, now)
            if is_recounted:
                self.roster.update_spells(track)
        if self.roster.missing:
            self.roster.check_returned(track)

    def _leave_role(self, track: Track) -> None:
        member = track.member
        if track.role == "holding_back":
            del self.holding_back[member.writer]
            if not self.holding_back:
                self._released_by = None if member.excluded else member.writer
        elif track.role == "returned_below":
            del self.returned_below[member.writer]

    def _enter_role(self, track: Track, timeout_ms: int, now: int) -> None:
        if track.role == "inactive":
            return
        if track.role == "ahead":
            if not track.in_ahead:
                track.in_ahead = True
                self._ahead.push(track.time, track)
            return
        track.waiting_served_ms = max(now, self.moved_at)
        waited_for = self.returned_below
        if track.role == "holding_back":
            waited_for = self.holding_back
        waited_for[track.member.writer] = track
        self.timeouts.add(track, timeout_ms)

    def can_forget(self, track: Track) -> bool:
        member = track.member
        last = self.last
        if self.roster.has_unreported(track):
            return False
        if last is None:
            has_noted = track.time != BEFORE_ALL_TIME or track.max_time is not None
            return not has_noted and not member.position
        is_passed = track.time <= last.lower and track.largest_time <= last.upper
        if not is_passed and member.excluded != "removed":
            return False
        cut = last.cut.offsets
        # the cut needs the segment, which a later scale event may give predecessors
        return all(cut.get(segment, -1) >= offset for segment, offset in member.position.items())

    def forget(self, track: Track, *, cut_may_pass: bool) -> None:
        """Drop a departed member; `cut_may_pass` if the cut may cover rows that it did not note."""
        self.undeclared -= track.is_undeclared
        self.is_unbounded = self.is_unbounded or track.is_undeclared or cut_may_pass
        self.roster.forget(track)

    @property
    def highest(self) -> int:
        if self._is_highest_stale:
            self._highest = self._find_highest(())
            self._is_highest_stale = False
        return self._highest

    @property
    def leader(self) -> str | None:
        """The first member that noted the highest time, if it is still known."""
        return self._leader.member.writer or None

    def highest_time_excluding(self, excluded_writers: Collection[str]) -> tuple[int, int]:
        """Return the highest time noted by other members, and when one of them noted last."""
        if excluded_writers:
            time = self._find_highest(excluded_writers)
        else:
            time = self.highest
        noted_moments = (
            track.member.noted_served_ms
            for track in self._tracks_not_removed(excluded_writers)
            if track.time == time
        )
        return time, min(noted_moments, default=0)

    def _find_highest(self, excluded_writers: Collection[str]) -> int:
        times = (track.time for track in self._tracks_not_removed(excluded_writers))
        return max(times, default=BEFORE_ALL_TIME)

    def _tracks_not_removed(self, excluded_writers: Collection[str] = ()) -> Iterator[Track]:
        for track in self.tracks():
            if track.member.excluded != "removed" and track.member.writer not in excluded_writers:
                yield track

    def requeue_timeouts(self, timeout_ms: int) -> None:
        self.timeouts.requeue_all(
            (*self.holding_back.values(), *self.returned_below.values()), timeout_ms
        )

    def ignore_removed_times(self, removed_time: int = BEFORE_ALL_TIME) -> None:
        """Ignore the times of a removed member, which noted times up to `removed_time`.

        Otherwise a wrong clock would set the upper forever, and the lower once no member is live.
        The upper changes with the mark that names the removal, which may be a mistake until then.
        Members may time out earlier, so the caller has to queue their timeouts again.
        """
        self._is_highest_stale = True
        highest, overtaken_served_ms = self.highest_time_excluding(())
        is_highest_lower = self.lower <= highest < self._peak
        if highest < self._peak:
            self._reset_highest(max(highest, self.lower))
        for track in self._tracks_not_removed():
            if track.time < min(removed_time, highest):
                track.lead = overtaken_served_ms
            elif is_highest_lower and track.time == highest:
                track.lead = self._leader.lead

    def drop_removed_uppers(self) -> None:
        """Leave the event times of removed members out of the upper."""
        largest_time = self._find_largest_time()
        if largest_time < self.upper:
            self.upper = largest_time
            self.is_unbounded = True

    def find_next_upper(self) -> int:
        """Return the upper once a mark has named the removed members."""
        reported_tracks = self.roster.list_reported(self.lower + 1)
        if any(track.membership.status == "removed" for track in reported_tracks):
            return min(self.upper, self._find_largest_time())
        return self.upper

    def _find_largest_time(self) -> int:
        times = (track.largest_time for track in self._tracks_not_removed())
        return max(self.lower, max(times, default=self.lower))

    def _reset_highest(self, time: int) -> None:
        self._peak = time
        self._leader = Track(Member(""), Lead())

    def reset_track(self, old_track: Track, max_time: int | None, timeout_ms: int) -> Track:
        """Return a new track for the member, which may then note any time.

        The next cut covers all earlier rows, because they may have any time. The old track gets a
        finished member, so that queues drop it.
        """
        member = old_track.member
        old_membership = old_track.membership
        old_track.vouches_here = False
        old_track.membership = NOT_JOINED
        self.update_role(old_track, timeout_ms, 0)
        self._is_highest_stale = True
        self.undeclared -= old_track.is_undeclared
        self.cut.add(BEFORE_ALL_TIME, member.position)
        old_track.member = Member(member.writer, "finished")
        new_track = self.create_track(member)
        new_track.max_time = max_time
        new_track.stored = old_track.stored
        if member.writer in self.roster.newcomers:
            self.roster.newcomers[member.writer] = new_track
        spells = tuple(
            spell for spell in old_membership.spells[-1:] if spell.to_time == old_track.time
        )
        new_track.membership = replace(old_membership, spells=spells, from_time=None)
        if member.has_written and (old_track.is_undeclared or max_time is None):
            self.record_undeclared(new_track)
        return new_track

    def restore(self, track: Track, record: MemberRecord, membership: Membership | None) -> None:
        time = record.times.get(self.name)
        max_time = record.max_times.get(self.name)
        self.cut.add(BEFORE_ALL_TIME, record.position)
        self.note(track, time, max_time, record.noted_served_ms)
        if self.name in record.undeclared or (track.member.has_written and max_time is None):
            self.record_undeclared(track)
        self.roster.restore(track, membership)

    def finish_restore(self, last_note_at: int, timeout_ms: int) -> None:
        """Restore the state that depends on all members, after the last `restore`.

        Overtakings are not stored: all members below the highest time get `last_note_at`.
        """
        self.holding_back = _sort_longest_first(self.holding_back)
        self.returned_below = _sort_longest_first(self.returned_below)
        removed_tracks = [track for track in self.tracks() if track.member.excluded == "removed"]
        if removed_tracks:
            self.ignore_removed_times()
            named_tracks = [track for track in removed_tracks if not track.membership.is_unreported]
            if any(track.largest_time == self.upper for track in named_tracks):
                self.drop_removed_uppers()
        if self._peak < self.lower:  # the member that noted it was forgotten
            self._reset_highest(self.lower)
        for track in self.tracks():
            if track.time < self._peak:
                track.lead = last_note_at
        self.requeue_timeouts(timeout_ms)

    def next_step(self) -> Advance | None:
        """Return how far the watermark may advance, or `None`.

        A late live member prevents a flush, as in Flink's valve.
        """
        if self.holding_back or self.roster.is_sealed or not self._ahead.settle(self.lower):
            return None
        least_time = self._ahead.least
        if least_time is not None:
            return Advance(least_time)
        if self.returned_below or self.highest <= self.lower:
            return None
        return Advance(self.highest, flush=True)

    def find_holding_back(self) -> Mapping[str, Track]:
        if self.holding_back or (self.next_step() is None and self.highest > self.lower):
            return self.holding_back or self.returned_below
        return {}

    @property
    def is_quiet(self) -> bool:
        return self.is_settled and self.next_step() is None and not self.find_holding_back()

    def next_step_excluding(self, names: AbstractSet[str]) -> Advance | None:
        if self.roster.is_sealed or self._ahead.has_before(self.lower + 1):
            return None
        if any(writer not in names for writer in self.holding_back):
            return None
        _, least_time = self._ahead.skip_while(lambda track: track.member.writer in names)
        if least_time is not None:
            return Advance(least_time)
        if self.highest <= self.lower or any(writer not in names for writer in self.returned_below):
            return None
        return Advance(self.highest, flush=True)

    def next_timeout(self, timeout_ms: int) -> int | None:
        times = [self.timeouts.next]
        if not self.holding_back and self._ahead.first_time() is not None:
            times.append(self._ahead.peek()[-1].excluded_served_ms(timeout_ms))
        return min((time for time in times if time is not None), default=None)

    def next_to_exclude(self, times_out: Callable[[Track], bool]) -> list[Track]:
        """Return the members ahead that would time out, too, once all others have.

        The caller excludes them now, or the watermark would stop at their time.
        """
        if self._ahead.has_before(self.lower + 1) or not all(
            map(times_out, self.holding_back.values())
        ):
            return []
        return self._ahead.skip_while(times_out)[0]

    def is_bound(self, cut: Mapping[int, int]) -> bool:
        return not self.undeclared and not self.is_unbounded and self.segment_writers.is_noted(cut)

    def advance(self, step: Advance, *, now: int, written_at: int, timeout_ms: int) -> Mark:
        self.last_writer = self._released_by
        self._released_by = None
        lower = step.lower
        naming = self._naming or self.roster.begin_naming(lower, self.cut.at(lower))
        self.finish_naming(naming)
        excluded_writers, excluded_count = naming.list_excluded()
        mark = Mark(
            seq=self.roster.last_seq + 1,
            lower=lower,
            upper=self.upper,
            cut=naming.cut,
            written_at=written_at,
            excluded=excluded_writers,
            upper_is_bound=self.is_bound(naming.cut.offsets),
            excluded_count=excluded_count,
        )
        self.roster.last = mark
        self.lower = lower
        self.moved_at = now
        self.settle(timeout_ms)
        return mark

    def name_some(self, step: Advance, count: int) -> Named | None:
        """Name some writers of the next mark, or return `None` if `advance` can name the rest.

        Nothing of the domain may change from the first call until `advance`.
        """
        naming = self._naming
        if naming is None:
            naming = self.roster.begin_naming(step.lower, self.cut.at(step.lower))
            self._naming = naming
        if naming.remaining <= count:
            return None
        return naming.take(count, is_last=False)

    def finish_naming(self, naming: Naming) -> None:
        """Name the other writers of the next mark, and let the times of those removed end."""
        self._naming = None
        self.roster.named = naming.take()
        self.end_removed_times(naming)

    def end_removed_times(self, naming: Naming) -> None:
        if naming.has_removed:
            self.drop_removed_uppers()

    @property
    def is_settled(self) -> bool:
        return bool(self.holding_back) or self._ahead.settle(self.lower)

    def settle(self, timeout_ms: int) -> bool:
        """Let up to `BATCH_SIZE` members at the lower hold it back, and return whether all do.

        So an advance past a million members does not block.
        """
        lower = self.lower
        ahead = self._ahead
        for track in ahead.take(lower, BATCH_SIZE):
            if track.role == "ahead" and track.time > lower:  # its queue entry was too low
                ahead.push(track.time, track)
                continue
            track.in_ahead = False
            if track.role == "ahead":
                track.role = "holding_back"
                track.waiting_served_ms = self.moved_at
                self.holding_back[track.member.writer] = track
                if track.timeout_queued is None:
                    self.timeouts.add(track, timeout_ms)
        return not ahead.has_before(lower + 1) and self.is_settled


def _sort_longest_first(members: Mapping[str, Track]) -> dict[str, Track]:
    return dict(sorted(members.items(), key=lambda pair: pair[1].waiting_served_ms))
