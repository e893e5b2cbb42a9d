"""The members of one stream, and what changes how each stands in the stream's domains."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from noted_time.rules.census import Census
from noted_time.rules.departures import Departures
from noted_time.rules.member import BEFORE_ALL_TIME, Member, Track, make_tracks
from noted_time.values import NO_TERMS, UNCHANGED, Exclusion, LateRows, UnknownWriter, gained_by

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from noted_time.rules.domain import Domain
    from noted_time.rules.known_segments import KnownSegments
    from noted_time.rules.record import MemberRecord
    from noted_time.rules.sharing import Sharing
    from noted_time.values import Note, Reason, State, StreamSettings, Terms


class Roster:
    """The members by name and the domains in order; `now` is always the service clock in ms.

    `unix_ahead` is how far Unix ms is ahead of it at present.
    """

    def __init__(
        self,
        settings: StreamSettings,
        domains: Iterable[Domain],
        segments: KnownSegments,
        sharing: Sharing,
    ) -> None:
        """Begin without members."""
        self.settings = settings
        self.sharing = sharing
        self.domains = list(domains)
        self.segments = segments
        self.unix_ahead = 0
        self.census = Census()
        self._members: dict[str, Member] = {}
        self._departures = Departures()
        for number, domain in enumerate(self.domains):
            domain.tracks = partial(self.tracks, number)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, writer: str) -> bool:
        return writer in self._members

    def get(self, writer: str) -> Member | None:
        """Return the member of that name, `None` where there is none."""
        return self._members.get(writer)

    def member(self, writer: str) -> Member:
        """Return the member of that name; raises `UnknownWriter`."""
        try:
            return self._members[writer]
        except KeyError:
            raise UnknownWriter(writer) from None

    def names(self) -> Iterator[str]:
        """Yield the names of all members in the order in which they joined."""
        return iter(self._members)

    def tracks(self, number: int) -> Iterator[Track]:
        """Yield how each member stands in the domain of that number, in the order of joining."""
        return (member.track(number) for member in self)

    # Joining and noting

    def join(
        self, writer: str, now: int, state: State = "finished", terms: Terms = NO_TERMS
    ) -> Member:
        """Add a member; until its first note is accepted it stands nowhere."""
        member = Member(writer, state, noted_at=now, since=now, terms=terms)
        make_tracks(member, [domain.name for domain in self.domains])
        self._members[writer] = member
        self.census.count(member)
        return member

    def expect(self, writers: Iterable[str], now: int) -> list[str]:
        """Make members of those that are none yet, which hold time from now on; returns them."""
        new = [writer for writer in writers if writer not in self._members]
        for writer in new:
            member = self.join(writer, now, "live")
            self._exclude_late(member, now)
            self._place(member, now)
        return new

    def accept(  # noqa: C901 - plain code, since every note goes through it
        self, member: Member, number: int, note: Note, gained: Mapping[int, int], now: int
    ) -> Track:
        """Take in a note of the domain of that number; returns the member's track of it.

        `gained` is by how much its position goes beyond the member's.
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
        if note.session is not None and note.session != member.session.id:
            since = now + self.unix_ahead
            member.session = member.session.taken_by(note.session, note.label, since)
        if note.timeout_ms != UNCHANGED or note.domains is not None:
            changes, widens = True, self._take_terms(member, note)
        if gained:
            self._gain(member, number, note, gained)
        domain, track = self.domains[number], member.track(number)
        last = track.time
        if note.max_times:
            self._declare(member, note.max_times)
        domain.note(track, note.time, note.max_time)
        if note.late is not None:
            _report_late(member, domain, track, note.late)
        # the first note after its return may be above the lower, and is answered all the same
        if track.exclusion and not returns and track.has_caught_up(max(last, domain.lower)):
            track.exclusion, changes = None, True
        if changes:
            self._change_place(member, now, returns=returns or widens)
        elif track.role != "ahead":
            domain.place(track, self.settings.writer_timeout_ms, now)
        return track

    def _change_place(self, member: Member, now: int, *, returns: bool) -> None:
        if returns:
            self._exclude_late(member, now)
        self._place(member, now)
        if member.state == "finished":
            self._departures.add(member)

    def _gain(self, member: Member, number: int, note: Note, gained: Mapping[int, int]) -> None:
        first, domains, position = member.first, self.domains, member.position
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
        for other, track in enumerate(member.others, start=1):
            domains[other].cut.add(track.time, gained)

    def _undeclare(
        self, member: Member, number: int, note: Note, gained: Mapping[int, int]
    ) -> None:
        """Remember where nothing bounds the times of what the member wrote up to its position."""
        own = None if note.max_time is None else self.domains[number].name
        carried = note.max_times or ()
        if len(carried) + (own is not None and own not in carried) == len(self.domains):
            return  # all of them, as our own clients do
        left = [
            (domain, track)
            for domain, track in zip(self.domains, member.tracks, strict=True)
            if not (track.is_undeclared or domain.name == own or domain.name in carried)
        ]
        if left and _wrote(member, note.position, gained):
            for domain, track in left:
                domain.wrote_undeclared(track)

    def complete(self, member: Member, floor: Mapping[int, int]) -> None:
        """Have a member's position reach what a scale event implies by a segment that it named."""
        gained = gained_by(floor, member.position)
        if _wrote(member, (), gained):
            for domain, track in zip(self.domains, member.tracks, strict=True):
                domain.wrote_undeclared(track)
        member.position.update(gained)
        self.sharing.name(member, gained)

    def _declare(self, member: Member, max_times: Mapping[str, int]) -> None:
        for domain, track in zip(self.domains, member.tracks, strict=True):
            if domain.name in max_times:
                domain.note(track, None, max_times[domain.name])

    def _change_state(self, member: Member, state: State, now: int) -> bool:
        """Change the membership; returns whether the member is waited for from now on."""
        returns = state == "live" and not member.vouches
        was, left = member.excluded, member.state == "finished"
        member.since = now
        member.state = state
        member.excluded = None
        if was == "removed":
            member.terms = replace(member.terms, removed_by=None)
            for number in range(len(self.domains)):
                self._begin_again(member, number, max_time=None)
        if left and state != "finished":
            self.sharing.name(member, member.position, again=True)
        for track in member.tracks:
            if state != "live":
                track.returned_late, track.exclusion = False, None
                track.is_unrecorded = False
        return returns

    def _begin_again(self, member: Member, number: int, max_time: int | None) -> None:
        """Forget the times that the member noted of a domain; it may note any again.

        What it wrote so far may have any time now, so the next cut has all of it. Queues drop the
        old track in their turn, as it is nobody's.
        """
        old, domain = member.track(number), self.domains[number]
        old.vouched = old.returned_late = False
        domain.place(old, self.settings.writer_timeout_ms, 0)
        domain.take_times_back()
        domain.undeclared -= old.is_undeclared
        domain.cut.add(BEFORE_ALL_TIME, member.position)
        old.member = Member(member.writer, "finished")
        new = Track(
            member,
            max_time=max_time,
            vouched=member.vouches_for(domain.name),
            exclusion=old.exclusion,
        )
        if member.wrote and (old.is_undeclared or max_time is None):
            domain.wrote_undeclared(new)
        if number == 0:
            member.first = new
        else:
            others = list(member.others)
            others[number - 1] = new
            member.others = tuple(others)

    def _exclude_late(self, member: Member, now: int) -> None:
        if self.settings.returning_writer != "exclude" or not member.vouches:
            return
        for domain, track in zip(self.domains, member.tracks, strict=True):
            is_late = track.vouched and domain.last is not None and track.time < domain.lower
            if is_late and not track.returned_late:
                member.since = now  # by this a restart knows whether a mark has named it
                domain.return_late(track, now + self.unix_ahead)

    def _place(self, member: Member, now: int) -> None:
        timeout_ms = self.settings.writer_timeout_ms
        for domain, track in zip(self.domains, member.tracks, strict=True):
            domain.place(track, timeout_ms, now)
        self.census.count(member)

    # Terms of one writer

    def _take_terms(self, member: Member, note: Note) -> bool:
        """Take the terms that a note has; returns whether the member vouches for more by them."""
        terms = member.terms
        if note.timeout_ms != UNCHANGED:
            terms = replace(terms, timeout_ms=note.timeout_ms)
        if note.domains is not None:
            named = tuple(each.name for each in self.domains if each.name in note.domains)
            terms = replace(terms, domains=named)
        return terms != member.terms and self._set_terms(member, terms)

    def _set_terms(self, member: Member, terms: Terms) -> bool:
        """Widening begins a domain anew; narrowing rests there, at the last position (S6)."""
        member.terms = NO_TERMS if terms == NO_TERMS else terms
        widens = False
        for number, domain in enumerate(self.domains):
            track, vouches = member.track(number), member.vouches_for(domain.name)
            if vouches and not track.vouched:
                self._begin_again(member, number, track.max_time)
                widens = True
            elif not vouches:
                track.vouched = track.returned_late = track.is_unrecorded = False
                track.exclusion = None
        for domain, track in zip(self.domains, member.tracks, strict=True):
            domain.timeouts.change_one(track, self.settings.writer_timeout_ms)
        return widens

    def hold(self, writer: str, until: int | None) -> None:
        """Let no timeout exclude the writer until then; raises `UnknownWriter`."""
        member = self.member(writer)
        self._set_terms(member, replace(member.terms, hold_until=until))

    # Members that go

    def remove(self, writer: str, now: int, by: str | None) -> None:
        """Exclude a member by hand, at its last position; raises `UnknownWriter`."""
        member = self.member(writer)
        if member.excluded == "removed":
            return
        member.terms = replace(member.terms, hold_until=None, removed_by=by)
        self._exclude(member, "removed", now)
        for domain in self.domains:
            domain.withdraw()

    def overdue(self, now: int) -> list[Member]:
        """Return the members that were silent for their timeout."""
        timeout_ms = self.settings.writer_timeout_ms
        overdue = {
            member.writer: member
            for domain in self.domains
            for member in domain.timeouts.overdue(now, timeout_ms)
        }
        return list(overdue.values())

    def expire(self, now: int) -> tuple[str, ...]:
        """Exclude the members that were silent for their timeout; returns their names."""
        overdue = self.overdue(now)
        for member in overdue:
            self._exclude(member, "timed_out", now)
        return tuple(member.writer for member in overdue)

    def _exclude(self, member: Member, reason: Reason, now: int) -> None:
        waited_for = member.vouches
        member.excluded = reason
        member.since = now
        exclusion = Exclusion(reason, now + self.unix_ahead)
        for domain, track in zip(self.domains, member.tracks, strict=True):
            if track.vouched:
                track.exclusion = exclusion
                if waited_for or member.writer in domain.absences.missing:
                    domain.absences.add(track)
            track.returned_late = False  # if it comes back late again, a mark says so again
        self._place(member, now)
        self._departures.add(member)

    def forget(self, horizon: int, limit: int) -> tuple[str, ...]:
        """Forget at most `limit` members that are gone since before `horizon`; returns them.

        Never one that a mark has still to name or to cover. Who comes back after it is new.
        """
        gone = self._departures.due(horizon + 1, self._is_done_with, limit)
        for member in gone:
            self.census.leave(member)
            del self._members[member.writer]
            is_passed = self.sharing.may_pass(member)
            for domain, track in zip(self.domains, member.tracks, strict=True):
                domain.forget(track, is_passed=is_passed)
        return tuple(member.writer for member in gone)

    def _is_done_with(self, member: Member) -> bool:
        pairs = list(zip(self.domains, member.tracks, strict=True))
        is_bounded = any(not (each.is_unbounded or track.is_undeclared) for each, track in pairs)
        if is_bounded and self.sharing.is_needed(member):
            return False
        return all(domain.is_done_with(track) for domain, track in pairs)

    def finish(self, member: Member, now: int) -> None:
        """Finish a member at its position, whatever it was."""
        if member.excluded is None and member.state == "finished":
            return
        self._change_state(member, "finished", now)
        self._change_place(member, now, returns=False)

    # Restarts and changed settings

    def restore(
        self, records: Iterable[MemberRecord], missing: Mapping[str, Iterable[str]]
    ) -> None:
        """Take the members back after a restart; by domain, who was missing at the last mark.

        The history that made cuts tight is gone: each member has one note, at its latest position,
        so the next cut may be loose, never unsound.
        """
        for domain in self.domains:
            domain.absences.missing.update(missing.get(domain.name, ()))
        for record in records:
            member = self.join(record.writer, record.noted_at, record.state, record.terms)
            member.excluded = record.excluded
            member.since = record.since
            member.heard_at = record.heard_at
            member.sequence = record.sequence
            member.session = record.session
            member.late = dict(record.late) or None
            member.position.update(record.position)
            self.segments.join(record.position)
            self.sharing.name(member, member.position)
            for domain, track in zip(self.domains, member.tracks, strict=True):
                _restore_track(domain, track, record)
            self._place(member, record.since)
            if member.is_gone:
                self._departures.add(member)
        for domain in self.domains:
            domain.restored()

    def declare(self, domain: Domain) -> None:
        """Add a domain, which every live member that vouches for all holds from now on."""
        domain.tracks = partial(self.tracks, len(self.domains))
        self.domains.append(domain)
        for member in self:
            track = Track(member, vouched=member.vouches_for(domain.name))
            member.others += (track,)
            domain.cut.add(track.time, member.position)
            if member.wrote:
                domain.wrote_undeclared(track)
            if track.is_to_be_named_anew:
                domain.absences.add(track)

    def reconfigure(self, settings: StreamSettings, now: int) -> None:
        """Take changed settings: members below the lower are late, or waited for again."""
        self.settings = settings
        for member in self:
            if settings.returning_writer == "hold":
                for track in member.tracks:
                    if track.returned_late:
                        track.returned_late = False
                        member.since = now
            self._exclude_late(member, now)
            self._place(member, now)
        for domain in self.domains:
            waited_for = (*domain.holders.values(), *domain.late.values())
            domain.timeouts.change_all(waited_for, settings.writer_timeout_ms)


def _wrote(member: Member, named: Container[int], gained: Mapping[int, int]) -> bool:
    """Whether the member wrote what its position gains, and did not only name a successor."""
    known = member.position
    return any(
        offset and (segment in named or segment in known) for segment, offset in gained.items()
    )


def _report_late(member: Member, domain: Domain, track: Track, reported: LateRows) -> None:
    late = LateRows(reported.rows, reported.least)  # a decoded note has a struct of msgspec's
    if member.late is None:
        member.late = {}
    known = member.late.get(domain.name)
    member.late[domain.name] = known.join(late) if known else late
    domain.report_late(track, late)


def _restore_track(domain: Domain, track: Track, record: MemberRecord) -> None:
    time, max_time = record.times.get(domain.name), record.max_times.get(domain.name)
    domain.cut.add(BEFORE_ALL_TIME, record.position)
    domain.note(track, time, max_time)
    if domain.name in record.undeclared or (track.member.wrote and max_time is None):
        domain.wrote_undeclared(track)
    track.returned_late = domain.name in record.returned_late
    track.exclusion = record.exclusions.get(domain.name)
    missing = domain.absences.missing
    if not (track.vouched and track.is_out):
        return
    is_above = time is not None and time >= domain.lower
    is_new = domain.last is None and track.is_to_be_named_anew
    if is_above or is_new or record.since > domain.moved_at:
        if record.state == "live" or record.writer in missing:
            domain.absences.add(track)
    elif record.excluded != "removed":
        missing.add(record.writer)  # its entry of the ledger may be forgotten
