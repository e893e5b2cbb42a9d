"""The domains of one stream, and how a change of one member affects each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from noted_time.rules.domain import Domain
from noted_time.rules.member import Census, Member, MemberRecord, Track
from noted_time.rules.queues import Departures
from noted_time.rules.segments import KnownSegments, Sharing
from noted_time.values import (
    NO_TERMS,
    UNCHANGED_TIMEOUT,
    ExcludedSince,
    ExclusionReason,
    Note,
    State,
    StreamSettings,
    Terms,
    UnknownDomain,
)


class Domains:
    """The domains by number and by name, and the `members`, which the caller adds and removes.

    `now` is always the service clock in ms; `unix_ahead` is how far Unix ms is ahead of it at
    present. `census` counts the members by their states. `latecomers` has each domain in which the
    last note may have left rows below the lower unreported, and their least time, `None` if they
    may have any; the caller clears it.
    """

    def __init__(
        self,
        settings: StreamSettings,
        domains: Iterable[Domain],
        members: Mapping[str, Member],
        segments: KnownSegments,
        sharing: Sharing,
    ) -> None:
        self.settings = settings
        self.default = settings.domain_or_default(None)
        self.members = members
        self.segments = segments
        self.sharing = sharing
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
        """Return the domain of that name; raises `UnknownDomain`."""
        try:
            return self.by_number[self.numbers[name]]
        except KeyError:
            raise UnknownDomain(name, self.numbers) from None

    def _add(self, domain: Domain) -> None:
        number = self.numbers[domain.name] = len(self.by_number)
        self.by_number.append(domain)
        domain.tracks = partial(self._tracks, number)

    def _tracks(self, number: int) -> Iterator[Track]:
        """Yield the track of each member in the domain of that number, in the order of joining."""
        return (member.track(number) for member in self.members.values())

    def list_tracks(self, member: Member) -> Iterator[tuple[Domain, Track]]:
        """Yield each domain with the member's track in it."""
        return zip(self.by_number, member.tracks, strict=True)

    def join(self, member: Member) -> Member:
        """Count a new member and give it a track in each domain; returns it."""
        tracks = [each.enter(member) for each in self]
        member.first, member.others = tracks[0], tuple(tracks[1:])
        member.joined_at = member.since + self.unix_ahead
        for domain in self:
            if domain.last and member.writer not in domain.absences.missing:
                domain.newcomers[member.writer] = member
        self.census.count(member)
        return member

    def expect(self, member: Member, now: int) -> None:
        """Place a member that never noted: it holds time from now on."""
        self._exclude_late(member, now)
        self._place(member, now)

    def accept(  # noqa: C901 - the hot path
        self, member: Member, number: int, note: Note, gained: Mapping[int, int], now: int
    ) -> Track:
        """Apply a note in the domain of that number; returns the member's track there.

        `gained` has the segments and offsets in which its position is beyond the member's.
        """
        state = note.state
        changes = member.excluded is not None or member.state != state
        returns = widens = False
        if changes:
            returns = self._change_state(member, state, now)
        member.noted_at = now
        member.heard_at = now + self.unix_ahead
        if note.sequence is not None:
            member.sequence = note.sequence
        member.held = note.held
        member.observes = note.observes
        member.because = note.because
        if note.session is not None and note.session != member.session.id:
            since = now + self.unix_ahead
            took_over = note.took_over or ()
            member.session = member.session.hand_over(note.session, note.label, since, took_over)
        if note.timeout_ms != UNCHANGED_TIMEOUT or note.domains is not None:
            changes, widens = True, self._take_terms(member, note)
        if gained:
            self._gain(member, number, note, gained)
        domain = self.by_number[number]
        track = member.others[number - 1] if number else member.first
        last = track.time
        if note.late is None and (last < domain.lower or (gained and member.others)):
            joins = returns and note.time is None and track.noted is None
            wrote = any(gained.values()) and not joins
            self._find_latecomer(member, number, note, wrote=wrote)
        if note.max_times:
            self._declare(member, note.max_times, now)
        domain.note(track, note.time, note.max_time, now)
        # the first note after its return may be above the lower; its answer still has the exclusion
        if track.exclusion and not returns and track.has_caught_up(max(last, domain.lower)):
            track.exclusion, changes = None, True
        if changes:
            self._change_place(member, now, returns=returns or widens)
        elif track.role != "ahead":
            domain.place(track, self.settings.writer_timeout_ms, now)
        return track

    def _find_latecomer(self, member: Member, number: int, note: Note, *, wrote: bool) -> None:
        """Report rows that a note may have left unreported below the lower.

        It advances the time or the position of a member that is below the lower, and declares no
        event times: nobody can tell how many rows came late.
        """
        declared = (note.max_times or {}).keys()
        for other, (domain, track) in enumerate(self.list_tracks(member)):
            time, is_own = track.noted, other == number
            if not domain.last or track.time >= domain.lower or not track.vouched:
                continue
            advances = is_own and note.time is not None and note.time > track.time
            is_declared = domain.name in declared or (is_own and note.max_time is not None)
            is_new = member.expected_at is not None and member.writer in domain.newcomers
            if (wrote or advances) and not (is_declared or (time is None and is_new)):
                self.latecomers.append((domain, note.since if time is None else time))

    def _change_place(self, member: Member, now: int, *, returns: bool) -> None:
        if returns:
            self._exclude_late(member, now)
        self._place(member, now)
        if member.state == "finished":
            for domain, track in self.list_tracks(member):
                domain.count(track)
            self._departures.add(member)

    def _gain(self, member: Member, number: int, note: Note, gained: Mapping[int, int]) -> None:
        first, domains, position = member.first, self.by_number, member.position
        if member.others or (note.max_time is None and not first.is_undeclared):
            self._undeclare(member, number, note, gained)
        named = len(position)
        position.update(gained)
        if len(position) != named or note.state == "finished":
            self.sharing.name(member, gained)
        known = self.segments.offsets
        for segment, offset in gained.items():
            if offset > known[segment]:  # noqa: PLR1730 - `max` would cost a call for each
                known[segment] = offset
        domains[0].cut.add(first.time, gained)
        if member.others:
            for other, track in enumerate(member.others, start=1):
                domains[other].cut.add(track.time, gained)

    def _undeclare(
        self, member: Member, number: int, note: Note, gained: Mapping[int, int]
    ) -> None:
        """Record the domains in which no time bounds the member's rows up to its position."""
        own = None if note.max_time is None else self.by_number[number].name
        carried = note.max_times or ()
        if len(carried) + (own is not None and own not in carried) == len(self.by_number):
            return  # all of them, as the Python clients do
        left = [
            (domain, track)
            for domain, track in self.list_tracks(member)
            if not (track.is_undeclared or domain.name == own or domain.name in carried)
        ]
        if left and member.wrote_by(note.position, gained):
            for domain, track in left:
                domain.record_undeclared(track)

    def _declare(self, member: Member, max_times: Mapping[str, int], now: int) -> None:
        for name, max_time in max_times.items():
            number = self.numbers[name]
            track = member.others[number - 1] if number else member.first
            self.by_number[number].note(track, None, max_time, now)

    def _change_state(self, member: Member, state: State, now: int) -> bool:
        """Change the membership; returns whether the member is waited for from now on."""
        returns = state == "live" and not member.vouches
        was, left = member.excluded, member.state == "finished"
        member.since = now
        member.state = state
        member.excluded = None
        if was == "removed":
            member.joined_at = None
            member.terms = replace(member.terms, removed_by=None)
            for number in range(len(self.by_number)):
                self._begin_again(member, number, max_time=None)
        if left and state != "finished":
            self.sharing.name(member, member.position, again=True)
            for domain, track in self.list_tracks(member):
                domain.count(track)
        for track in member.tracks:
            if state != "live":
                track.returned_late, track.exclusion = False, None
                track.is_unrecorded = False
        return returns

    def _begin_again(self, member: Member, number: int, max_time: int | None) -> None:
        """Forget the times that the member noted in a domain."""
        old, timeout_ms = member.track(number), self.settings.writer_timeout_ms
        tracks = list(member.tracks)
        tracks[number] = self.by_number[number].begin_again(old, max_time, timeout_ms)
        member.first, *others = tracks
        member.others = tuple(others)

    def _exclude_late(self, member: Member, now: int) -> None:
        if self.settings.returning_writer != "exclude" or not member.vouches:
            return
        for domain, track in self.list_tracks(member):
            is_late = track.vouched and domain.last is not None and track.time < domain.lower
            if is_late and not track.returned_late:
                member.since = now  # tells a restart whether a mark has named it
                domain.return_late(track, now + self.unix_ahead)

    def _place(self, member: Member, now: int) -> None:
        timeout_ms = self.settings.writer_timeout_ms
        for domain, track in self.list_tracks(member):
            domain.place(track, timeout_ms, now)
        self.census.count(member)

    def _take_terms(self, member: Member, note: Note) -> bool:
        """Apply the terms of a note; returns whether the member now vouches for more domains."""
        terms = member.terms
        if note.timeout_ms != UNCHANGED_TIMEOUT:
            terms = replace(terms, timeout_ms=note.timeout_ms)
        if note.domains is not None:
            named = tuple(name for name in self.numbers if name in note.domains)
            terms = replace(terms, domains=named)
        return terms != member.terms and self.set_terms(member, terms)

    def set_terms(self, member: Member, terms: Terms) -> bool:
        """Set the member's own terms; returns whether it now vouches for more domains.

        In a domain that is added the member starts from the beginning; in one that is dropped it
        rests at its last position.
        """
        member.terms = NO_TERMS if terms == NO_TERMS else terms
        widens = False
        for number, domain in enumerate(self.by_number):
            track, vouches = member.track(number), member.vouches_for(domain.name)
            if vouches and not track.vouched:
                self._begin_again(member, number, track.max_time)
                widens = True
            elif not vouches:
                track.vouched = track.returned_late = track.is_unrecorded = False
                track.exclusion = None
        for domain, track in self.list_tracks(member):
            domain.timeouts.change_one(track, self.settings.writer_timeout_ms)
        return widens

    def overdue(self, now: int) -> dict[str, Member]:
        """Return the members that were silent for their timeout, by their names.

        They hold time back, or would do so as soon as those before them no longer do.
        """
        timeout_ms = self.settings.writer_timeout_ms
        holders = chain(*(domain.timeouts.overdue(now, timeout_ms) for domain in self))
        out = {member.writer: member for member in holders}

        def is_out(track: Track) -> bool:
            return track.member.writer in out or track.times_out_at(timeout_ms, now) <= now

        for domain in self:
            out |= {track.member.writer: track.member for track in domain.find_next_out(is_out)}
        return out

    def exclude(self, member: Member, reason: ExclusionReason, now: int) -> None:
        """Exclude a member at its last position; the times of a removed member do not count."""
        waited_for = member.vouches
        member.excluded = reason
        member.since = now
        exclusion = ExcludedSince(reason, now + self.unix_ahead)
        for domain, track in self.list_tracks(member):
            if track.vouched:
                track.exclusion = exclusion
                if waited_for or member.writer in domain.absences.missing:
                    domain.absences.add(track)
            track.returned_late = False  # if it returns late again, a mark reports it again
        self._place(member, now)
        self._departures.add(member)
        if reason == "removed":
            for domain, track in self.list_tracks(member):
                domain.withdraw(track.time)

    def forget(self, horizon: int, limit: int) -> list[Member]:
        """Forget at most `limit` members that left before `horizon`; returns them.

        A member that a mark has still to name or to cover is kept. A forgotten writer that comes
        back is new.
        """
        gone = self._departures.due(horizon + 1, self._is_done_with, limit)
        for member in gone:
            self.census.leave(member)
            is_passed = self.sharing.may_pass(member)
            for domain, track in self.list_tracks(member):
                domain.forget(track, is_passed=is_passed)
            # its tracks refer to it: in a circle they would stay until a full collection
            del member.first, member.others
        return gone

    def _is_done_with(self, member: Member) -> bool:
        pairs = list(self.list_tracks(member))
        is_bounded = any(not (each.is_unbounded or track.is_undeclared) for each, track in pairs)
        if is_bounded and self.sharing.is_needed(member):
            return False
        return all(domain.is_done_with(track) for domain, track in pairs)

    def finish(self, member: Member, now: int) -> None:
        """Finish a member at its position, whatever its state."""
        if member.excluded is None and member.state == "finished":
            return
        self._change_state(member, "finished", now)
        self._change_place(member, now, returns=False)

    def restore(self, member: Member, record: MemberRecord) -> None:
        """Restore a member: it has one note, at its latest position."""
        member.restore(record)
        self.segments.join(record.position)
        self.sharing.name(member, member.position)
        for domain, track in self.list_tracks(member):
            domain.restore(track, record)
        self._place(member, record.since)
        for domain, track in self.list_tracks(member):
            domain.restore_vouching(track, record)
        if member.is_gone:
            self._departures.add(member)

    def declare(self, domain: Domain) -> None:
        """Add a domain, held from now on by every live member that vouches for all domains."""
        self._add(domain)
        for member in self.members.values():
            track = domain.enter(member)
            member.others += (track,)
            domain.cut.add(track.time, member.position)
            if member.wrote:
                domain.record_undeclared(track)
            if track.is_for_first_mark:
                domain.absences.add(track)

    def reconfigure(self, settings: StreamSettings, now: int) -> list[str]:
        """Apply changed settings; returns the writers that are late from now on, or no longer.

        Only these have another record; with 100,000 members, to write all takes seconds.
        """
        was, self.settings = self.settings, settings
        self.default = settings.domain_or_default(None)
        self.segments.reconfigure(settings)
        changed = []
        if (was.returning_writer, was.domains) != (settings.returning_writer, settings.domains):
            changed = [m.writer for m in self.members.values() if self._judge_anew(m, now)]
        for domain in self:
            waited_for = (*domain.holders.values(), *domain.late.values())
            domain.timeouts.change_all(waited_for, settings.writer_timeout_ms)
        return changed

    def _judge_anew(self, member: Member, now: int) -> bool:
        """Find out whether a member is late by present settings; returns whether that is new."""
        before = [track.returned_late for track in member.tracks]
        if self.settings.returning_writer == "hold" and any(before):
            member.since = now
            for track in member.tracks:
                track.returned_late = False
        self._exclude_late(member, now)
        self._place(member, now)
        return before != [track.returned_late for track in member.tracks]
