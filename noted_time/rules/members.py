"""The domains of one stream, and how a change of a member affects each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from noted_time.rules.domain import Domain
from noted_time.rules.member import BEFORE_ALL_TIME, Census, Member, MemberRecord, Track
from noted_time.rules.membership import Membership
from noted_time.rules.queues import Departures
from noted_time.rules.segments import KnownSegments, SegmentWriters
from noted_time.values import (
    NO_TERMS,
    UNCHANGED_TIMEOUT,
    ExclusionReason,
    MemberStatus,
    Note,
    State,
    StreamSettings,
    Terms,
    UnknownDomain,
)


class Domains:
    """The domains by number and by name; `now` is the service clock in ms.

    Attributes:
    - `members`: the members by name. The caller adds and deletes them.
    - `unix_ahead`: Unix ms minus the service clock.
    - `latecomers`: each domain where the last note may have left late rows unreported, with the
      least time of the rows, `None` if unknown. The caller clears the list.
    """

    def __init__(
        self,
        settings: StreamSettings,
        domains: Iterable[Domain],
        members: Mapping[str, Member],
        segments: KnownSegments,
        segment_writers: SegmentWriters,
    ) -> None:
        self.settings = settings
        self.default = settings.domain_or_default(None)
        self.members = members
        self.segments = segments
        self.segment_writers = segment_writers
        self.unix_ahead = 0
        self.census = Census()
        self._departures = Departures()
        self.latecomers: list[tuple[Domain, int | None]] = []
        self.by_number: list[Domain] = []
        self.numbers: dict[str, int] = {}
        for domain in domains:
            self._add(domain)

    def __iter__(self) -> Iterator[Domain]:
        return iter(self.by_number)

    def __getitem__(self, name: str) -> Domain:
        try:
            return self.by_number[self.numbers[name]]
        except KeyError:
            raise UnknownDomain(name, self.numbers) from None

    def _add(self, domain: Domain) -> None:
        number = self.numbers[domain.name] = len(self.by_number)
        self.by_number.append(domain)
        domain.tracks = partial(self._tracks, number)

    def _tracks(self, number: int) -> Iterator[Track]:
        return (member.track(number) for member in self.members.values())

    def list_tracks(self, member: Member) -> Iterator[tuple[Domain, Track]]:
        return zip(self.by_number, member.tracks, strict=True)

    def join(self, member: Member) -> None:
        """Add a new member, whose first note or expectation changes its state."""
        self._create_tracks(member)
        member.joined_at = member.changed_served_ms + self.unix_ahead
        for domain, track in self.list_tracks(member):
            domain.roster.join(track)
        self.census.update(member)

    def _create_tracks(self, member: Member) -> None:
        tracks = [domain.create_track(member) for domain in self]
        member.first_track = tracks[0]
        member.other_tracks = tuple(tracks[1:])

    def expect(self, member: Member, now: int) -> None:
        """Let the watermark wait for a new member."""
        self._update_statuses(member)
        self._exclude_if_late(member, now)
        self._update_roles(member, now)

    def accept(
        self, member: Member, number: int, note: Note, new_offsets: Mapping[int, int], now: int
    ) -> Track:
        """Apply a note, and return the member's track in the domain with that number.

        The order matters: first the state and the terms, which may reset tracks. Then the position,
        whose rows belong to the time that the member noted *before*, and late rows, which are found
        by that time, too. Last the times of the note. It makes few calls, because it runs for every
        note.
        """
        has_changes = member.excluded is not None or member.state != note.state
        is_returning = vouches_for_more = was_removed = False
        has_vouched = note.domains is not None and member.has_vouched
        if has_changes:
            was_removed = member.excluded == "removed"
            is_returning = self._change_state(member, note.state, now)
        self._update_facts(member, note, now)
        if note.timeout_ms != UNCHANGED_TIMEOUT or note.domains is not None:
            has_changes = True
            vouches_for_more = self._apply_terms(member, note, has_vouched=has_vouched)
        if new_offsets:
            self._add_position(member, number, note, new_offsets)
        domain = self.by_number[number]
        if number:
            track = member.other_tracks[number - 1]
        else:
            track = member.first_track
        if track.time == BEFORE_ALL_TIME:
            domain.roster.record_first_note(track, note)
        last_time = track.time
        if note.late_rows is None and (
            last_time < domain.lower or (new_offsets and member.other_tracks)
        ):
            self._find_latecomers(member, number, note, has_rows=any(new_offsets.values()))
        if note.max_times:
            self._declare(member, note.max_times, now)
        domain.note(track, note.time, note.max_time, now)
        is_excluded = track.membership.reason is not None and track.is_counted
        # the first answer after a return reports the exclusion, even above the lower
        if is_excluded and not is_returning and track.time > max(last_time, domain.lower):
            domain.roster.catch_up(track)
            has_changes = True
        if has_changes:
            self._finish_change(member, now, is_returning=is_returning or vouches_for_more)
            if was_removed:
                self._drop_former_uppers()
        elif track.role != "ahead":
            domain.update_role(track, self.settings.writer_timeout_ms, now)
        return track

    def _update_facts(self, member: Member, note: Note, now: int) -> None:
        member.noted_served_ms = now
        member.heard_at = now + self.unix_ahead
        if note.sequence is not None:
            member.sequence = note.sequence
        member.no_time_reason = note.no_time_reason
        member.observes = note.observes
        member.log_facts = note.because
        if note.contact is not None:
            member.contact = note.contact or None
        if note.session is not None and note.session != member.session.id:
            member.session = member.session.hand_over(
                note.session, note.label, now + self.unix_ahead, note.took_over or ()
            )

    def _find_latecomers(self, member: Member, number: int, note: Note, *, has_rows: bool) -> None:
        """Append the domains where the note may have left late rows unreported.

        The member is below the lower, and adds rows or advances without declaring event times. Rows
        without a time are not late if an absence covers all times. A dropped domain has late rows
        until a mark says that the member is missing.
        """
        for domain_number, (domain, track) in enumerate(self.list_tracks(member)):
            is_own = domain_number == number
            if not _is_below_lower(domain, track):
                continue
            advances = is_own and note.time is not None and note.time > track.time
            adds_rows = has_rows and not (note.time is None and _lacks_all(domain, track))
            if not advances and not adds_rows:
                continue
            is_dropped = track.is_narrowed and track.membership.is_unreported
            if not track.vouches_here and not is_dropped:
                continue
            if _declares_max_time(note, domain, is_own=is_own):
                continue
            least_time = track.noted
            if least_time is None:
                least_time = _find_first_time(note, track)
            if least_time is None or least_time < domain.lower:
                self.latecomers.append((domain, least_time))

    def _finish_change(self, member: Member, now: int, *, is_returning: bool) -> None:
        if is_returning:
            self._exclude_if_late(member, now)
        self._update_roles(member, now)
        if member.state == "finished":
            for domain, track in self.list_tracks(member):
                domain.roster.update_spells(track)
                domain.roster.end_narrowing(track)
            self._departures.add(member)

    def _drop_former_uppers(self) -> None:
        """Leave the former event times of a member out of the uppers when a removal is over.

        No later mark names the removal, and a restart does not know these times.
        """
        for domain in self:
            domain.drop_removed_uppers()

    def _add_position(
        self, member: Member, number: int, note: Note, new_offsets: Mapping[int, int]
    ) -> None:
        first_track = member.first_track
        if member.other_tracks or (note.max_time is None and not first_track.is_undeclared):
            self._record_undeclared(member, number, note, new_offsets)
        position = member.position
        segment_count = len(position)
        position.update(new_offsets)
        if len(position) != segment_count or note.state == "finished":
            self.segment_writers.record_writer(member, new_offsets)
        last_offsets = self.segments.offsets
        for segment, offset in new_offsets.items():
            if offset > last_offsets[segment]:  # noqa: PLR1730 - `max` would cost a call for each
                last_offsets[segment] = offset
        domains = self.by_number
        domains[0].cut.add(first_track.time, new_offsets)
        if member.other_tracks:
            for domain_number, track in enumerate(member.other_tracks, start=1):
                domains[domain_number].cut.add(track.time, new_offsets)

    def _record_undeclared(
        self, member: Member, number: int, note: Note, new_offsets: Mapping[int, int]
    ) -> None:
        declared_domains = set(note.max_times or ())
        if note.max_time is not None:
            declared_domains.add(self.by_number[number].name)
        if len(declared_domains) == len(self.by_number):
            return
        undeclared_tracks = [
            (domain, track)
            for domain, track in self.list_tracks(member)
            if not track.is_undeclared and domain.name not in declared_domains
        ]
        if undeclared_tracks and member.adds_rows(note.position, new_offsets):
            for domain, track in undeclared_tracks:
                domain.record_undeclared(track)

    def _declare(self, member: Member, max_times: Mapping[str, int], now: int) -> None:
        for name, max_time in max_times.items():
            number = self.numbers[name]
            if number:
                track = member.other_tracks[number - 1]
            else:
                track = member.first_track
            self.by_number[number].note(track, None, max_time, now)

    def _change_state(self, member: Member, state: State, now: int) -> bool:
        """Change the state, and return whether the member returns from an exclusion or a rest."""
        is_returning = state == "live" and not member.is_active
        was_removed = member.excluded == "removed"
        was_finished = member.state == "finished"
        member.changed_served_ms = now
        member.state = state
        member.excluded = None
        if was_removed:
            member.terms = replace(member.terms, removed_by=None)
            for number in range(len(self.by_number)):
                self._reset_track(member, number, max_time=None)
        self._update_statuses(member)
        if was_finished and state != "finished":
            self.segment_writers.record_writer(member, member.position, is_returning=True)
            for domain, track in self.list_tracks(member):
                domain.roster.update_spells(track)
        return is_returning

    def _update_statuses(self, member: Member) -> None:
        """Give a member that is not excluded the status of its state where it vouches."""
        status: MemberStatus = "counted" if member.state == "live" else member.state
        for domain, track in self.list_tracks(member):
            if track.vouches_here and track.membership.status != "sealed":
                domain.roster.change(track, status)

    def _reset_track(self, member: Member, number: int, max_time: int | None) -> None:
        domain = self.by_number[number]
        track = member.track(number)
        tracks = list(member.tracks)
        tracks[number] = domain.reset_track(track, max_time, self.settings.writer_timeout_ms)
        member.first_track = tracks[0]
        member.other_tracks = tuple(tracks[1:])

    def _exclude_if_late(self, member: Member, now: int) -> None:
        if self.settings.returning_writer != "exclude" or not member.is_active:
            return
        for domain, track in self.list_tracks(member):
            if track.is_counted and _is_below_lower(domain, track):
                # it holds back the watermark from now on, also after a restart
                member.changed_served_ms = now
                domain.roster.change(track, "returned_below", now + self.unix_ahead)

    def _update_roles(self, member: Member, now: int) -> None:
        timeout_ms = self.settings.writer_timeout_ms
        for domain, track in self.list_tracks(member):
            domain.update_role(track, timeout_ms, now)
        self.census.update(member)

    def _apply_terms(self, member: Member, note: Note, *, has_vouched: bool) -> bool:
        terms = member.terms
        if note.timeout_ms != UNCHANGED_TIMEOUT:
            terms = replace(terms, timeout_ms=note.timeout_ms)
        if note.domains is not None:
            domains = tuple(name for name in self.numbers if name in note.domains)
            terms = replace(terms, domains=domains)
        return terms != member.terms and self.set_terms(member, terms, has_vouched=has_vouched)

    def set_terms(self, member: Member, terms: Terms, *, has_vouched: bool = False) -> bool:
        """Set the terms of the member and return whether it vouches for more domains.

        If it `has_vouched`, it is missing in a domain that it drops. So is a member that is missing
        there already, such as a forgotten one.
        """
        member.terms = NO_TERMS if terms == NO_TERMS else terms
        vouches_for_more = False
        for number, domain in enumerate(self.by_number):
            track = member.track(number)
            vouches = member.vouches_for(domain.name)
            if vouches and not track.vouches_here:
                self._widen(member, number)
                vouches_for_more = True
            elif track.vouches_here and not vouches:
                track.vouches_here = False
                is_narrowed = has_vouched or track.membership.reported is not None
                if is_narrowed and domain.last is not None:
                    domain.roster.change(track, "narrowed", member.heard_at or 0)
                else:
                    domain.roster.change(track, "not_joined")
        for domain, track in self.list_tracks(member):
            domain.timeouts.requeue(track, self.settings.writer_timeout_ms)
        return vouches_for_more

    def _widen(self, member: Member, number: int) -> None:
        roster = self.by_number[number].roster
        self._reset_track(member, number, member.track(number).max_time)
        track = member.track(number)
        roster.widen(track, (member.heard_at or 0))
        roster.change(track, "counted" if member.state == "live" else member.state)

    def find_overdue(self, now: int) -> dict[str, Member]:
        """Return the members that have timed out, or would once they hold back a watermark."""
        timeout_ms = self.settings.writer_timeout_ms
        overdue_members: dict[str, Member] = {}
        for domain in self:
            for member in domain.timeouts.pop_overdue(now, timeout_ms):
                overdue_members[member.writer] = member

        def times_out(track: Track) -> bool:
            if track.member.writer in overdue_members:
                return True
            return track.times_out_served_ms(timeout_ms, now) <= now

        for domain in self:
            for track in domain.next_to_exclude(times_out):
                overdue_members[track.member.writer] = track.member
        return overdue_members

    def is_still_overdue(self, member: Member, now: int) -> bool:
        """Return whether a member that `find_overdue` returned before has stayed silent since.

        If not, its timeouts are queued again. It may also have finished, and have been forgotten.
        """
        if not member.is_active:
            return False
        timeout_ms = self.settings.writer_timeout_ms
        tracks = [track for _, track in self.list_tracks(member) if track.role != "inactive"]
        for track in tracks:
            waiting_served_ms = None if track.is_waited_for else now
            if track.times_out_served_ms(timeout_ms, waiting_served_ms) <= now:
                return True
        for domain, track in self.list_tracks(member):
            domain.timeouts.requeue(track, timeout_ms)
        return False

    def exclude(self, member: Member, reason: ExclusionReason, now: int) -> None:
        pairs = list(self.list_tracks(member))
        member.excluded = reason
        member.changed_served_ms = now
        for domain, track in pairs:
            if track.vouches_here and reason == "removed":
                domain.roster.remove(track, now + self.unix_ahead)
            elif track.vouches_here:
                domain.roster.change(track, reason, now + self.unix_ahead)
            elif reason == "removed":
                domain.roster.end_narrowing(track)
        self._update_roles(member, now)
        self._departures.add(member)
        if reason == "removed":
            for domain, track in pairs:
                domain.roster.update_spells(track)
                domain.ignore_removed_times(track.time)
                if not track.membership.is_unreported:
                    domain.drop_removed_uppers()
                domain.requeue_timeouts(self.settings.writer_timeout_ms)

    def forget(self, horizon: int, limit: int) -> list[Member]:
        """Drop and return at most `limit` members that departed before `horizon`."""
        departed_members = self._departures.pop_forgettable(horizon + 1, self._can_forget, limit)
        for member in departed_members:
            self.census.remove(member)
            cut_may_pass = self.segment_writers.may_pass(member)
            for domain, track in self.list_tracks(member):
                domain.forget(track, cut_may_pass=cut_may_pass)
            # break the reference cycle
            del member.first_track, member.other_tracks
        return departed_members

    def _can_forget(self, member: Member) -> bool:
        is_bounded = False
        for domain, track in self.list_tracks(member):
            if not domain.can_forget(track):
                return False
            if not domain.is_unbounded and not track.is_undeclared:
                is_bounded = True
        return not (is_bounded and self.segment_writers.is_needed(member))

    def finish(self, member: Member, now: int) -> None:
        if member.excluded is None and member.state == "finished":
            return
        self._change_state(member, "finished", now)
        self._finish_change(member, now, is_returning=False)

    def restore(
        self, member: Member, record: MemberRecord, memberships: Mapping[str, Membership]
    ) -> None:
        """Restore a member from its stored row, and from its stored memberships by domain."""
        self._create_tracks(member)
        member.restore(record)
        self.segments.join(record.position)
        self.segment_writers.record_writer(member, member.position)
        for domain, track in self.list_tracks(member):
            domain.restore(track, record, memberships.get(domain.name))
        self._update_roles(member, record.changed_served_ms)
        if member.has_left:
            self._departures.add(member)

    def declare(self, domain: Domain) -> None:
        """Add a domain, which live members that vouch for all domains hold back at first."""
        self._add(domain)
        for member in self.members.values():
            track = domain.create_track(member)
            member.other_tracks += (track,)
            domain.cut.add(track.time, member.position)
            if member.has_written:
                domain.record_undeclared(track)
            domain.roster.declare(track)
        self.add_forgotten_rows(domain)

    def add_forgotten_rows(self, domain: Domain) -> None:
        """Let the first cut of an added domain cover rows of writers forgotten before.

        The last cuts of the other domains cover them.
        """
        if domain.last is not None or domain.roster.declared_served_ms is None:
            return
        for other in self:
            if other.last is not None and other.roster.forgotten_lower is not None:
                domain.cut.add(BEFORE_ALL_TIME, other.last.cut.offsets)
                domain.is_unbounded = True

    def reconfigure(self, settings: StreamSettings, now: int) -> list[str]:
        """Apply the settings, and return the writers whose lateness changed."""
        old_settings = self.settings
        self.settings = settings
        self.default = settings.domain_or_default(None)
        self.segments.reconfigure(settings)
        changed_writers: list[str] = []
        has_new_rule = old_settings.returning_writer != settings.returning_writer
        if has_new_rule or old_settings.domains != settings.domains:
            for member in self.members.values():
                if self._recheck_late(member, now):
                    changed_writers.append(member.writer)
        for domain in self:
            domain.requeue_timeouts(settings.writer_timeout_ms)
        return changed_writers

    def _recheck_late(self, member: Member, now: int) -> bool:
        statuses_before = [track.membership.status for track in member.tracks]
        if self.settings.returning_writer == "wait" and "returned_below" in statuses_before:
            member.changed_served_ms = now
            for domain, track in self.list_tracks(member):
                if track.membership.status == "returned_below":
                    domain.roster.change(track, "counted")
        self._exclude_if_late(member, now)
        self._update_roles(member, now)
        return statuses_before != [track.membership.status for track in member.tracks]


def _is_below_lower(domain: Domain, track: Track) -> bool:
    return domain.last is not None and track.time < domain.lower


def _declares_max_time(note: Note, domain: Domain, *, is_own: bool) -> bool:
    return domain.name in (note.max_times or {}) or (is_own and note.max_time is not None)


def _find_first_time(note: Note, track: Track) -> int | None:
    """Return the least time of the rows of a writer that has noted none, `None` for any time."""
    if note.from_time is not None:
        return note.from_time
    if track.membership.from_time is not None:
        return track.membership.from_time
    return track.membership.vouched_to


def _lacks_all(domain: Domain, track: Track) -> bool:
    """Return whether answers name a member without a time as missing at all times."""
    if track.noted is not None or track.membership.vouched_to is not None:
        return False
    if track.member.writer in domain.roster.newcomers:
        return True
    absence = track.membership.reported
    return absence is not None and absence.from_time is None
