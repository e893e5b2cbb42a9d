"""Aggregates the notes of one stream to marks, without a clock or I/O.

The rules follow PDP-33 with Hazelcast's keyed coalescing. A cut takes the *first* note of each
member at or above the new lower, not its latest.

>>> from noted_time.values import Note, StreamSettings
>>> stream = Aggregator(StreamSettings())
>>> for writer in ("UA", "DL"):
...     _ = stream.note(Note(writer), now=0)
>>> for writer, time, segment in (("UA", 5, 0), ("DL", 9, 1)):
...     _ = stream.note(Note(writer, time, {segment: time * 10}, max_time=time), now=0)
>>> stream.advance("default", now=0, written_at=0)  # doctest: +NORMALIZE_WHITESPACE
Mark(seq=1, lower=5, upper=9, cut=StreamCut({0: 50, 1: 90}), written_at=0, excluded=(),
     upper_is_bound=True, final=False, excluded_count=UNSET)
>>> stream.decide("default", now=0)  # doctest: +NORMALIZE_WHITESPACE
WaitForWriters(waiting_for=(Waiting(writer='UA', time=5, held_back_ms=0, times_out_in_ms=60000,
     contact=None),), holding_back_count=1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from msgspec.structs import replace

from noted_time.rules.decisions import decide, dry_run
from noted_time.rules.domain import Domain
from noted_time.rules.member import BEFORE_ALL_TIME, Member, MemberRecord, record_of
from noted_time.rules.members import Domains
from noted_time.rules.membership import ALWAYS_COUNTED, Membership, ReportedAbsence
from noted_time.rules.note_checks import NoteChecks
from noted_time.rules.roster import Named
from noted_time.rules.scaling import apply_scale
from noted_time.rules.seal import Seal, SealRequest, Slices, seal
from noted_time.rules.segments import KnownSegments, SegmentWriters
from noted_time.values import (
    LARGEST_TIME,
    MAX_INT64,
    Accepted,
    AlreadySealed,
    Decision,
    DryRun,
    LateReport,
    LateRows,
    Mark,
    Note,
    NotLive,
    Refused,
    Rejected,
    ScaleEvent,
    State,
    StreamSealed,
    StreamSettings,
    Succession,
    Terms,
    UnknownWriter,
    list_reports,
)

SEALED_REFUSAL = Refused("sealed")

DomainReport = tuple[str, LateReport]

MEMBERS_EXAMINED = 10_000


class ChangedMembership(NamedTuple):
    """A membership to store in a domain, `None` if it needs no row; `seq` is of the last mark."""

    domain: str
    membership: Membership | None
    seq: int


class Aggregator:
    """The members of one stream, and the marks that follow from their notes.

    `now` is the service clock in ms, and `written_at` is in Unix ms. `domains` is for reading only,
    but the caller sets `domains.unix_ahead`. `is_expiring` if more members may have timed out than
    the last `expire` excluded.
    """

    def __init__(  # noqa: PLR0913 - the initial state of a stream
        self,
        settings: StreamSettings,
        succession: Succession | None = None,
        last_marks: Mapping[str, tuple[Mark, int]] | None = None,
        declared_served_ms: Mapping[str, int] | None = None,
        *,
        initial_seal: Seal | None = None,
        unbounded_domains: Collection[str] = (),
        forgotten_lowers: Mapping[str, int] | None = None,
    ) -> None:
        """Create a stream without members.

        `last_marks` has the last mark of each domain, and when it was appended.
        `declared_served_ms` has when each domain that was added later was declared. Both are on
        the service clock.
        """
        self.succession = succession or Succession()
        self.sealed = initial_seal
        self.is_expiring = False
        self._overdue: deque[Member] = deque()
        last_marks_by_domain = last_marks or {}
        declared_moments = declared_served_ms or {}
        cuts = [mark.cut.offsets for mark, _ in last_marks_by_domain.values()]
        segment_writers = SegmentWriters(self.succession.final, cuts)
        domains = [
            Domain(
                name,
                segment_writers,
                *last_marks_by_domain.get(name, (None, declared_moments.get(name, 0))),
            )
            for name in settings.domains
        ]
        for domain in domains:
            domain.roster.declared_served_ms = declared_moments.get(domain.name)
            domain.roster.is_sealed = initial_seal is not None
            domain.is_unbounded = domain.name in unbounded_domains
            domain.roster.forgotten_lower = (forgotten_lowers or {}).get(domain.name)
        segments = KnownSegments(settings)
        segments.load(self.succession, cuts)
        self._members: dict[str, Member] = {}
        self.domains = Domains(settings, domains, self._members, segments, segment_writers)
        self._note_checks = NoteChecks(self.domains, self.succession)
        self._accepted = [_build_accepted(domain) for domain in domains]

    @property
    def settings(self) -> StreamSettings:
        """The settings in force."""
        return self.domains.settings

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The domains whose uppers are not bounds."""
        return tuple(domain.name for domain in self.domains if domain.is_unbounded)

    @property
    def forgotten_lowers(self) -> dict[str, int]:
        """The last lower of each domain when a member was last forgotten."""
        lowers: dict[str, int] = {}
        for domain in self.domains:
            if domain.roster.forgotten_lower is not None:
                lowers[domain.name] = domain.roster.forgotten_lower
        return lowers

    def note(self, note: Note, now: int, largest_time: int = LARGEST_TIME) -> Accepted | Refused:
        """Accept the note, or return why it is refused, without a change."""
        if self.sealed is not None:
            return SEALED_REFUSAL
        member = self._members.get(note.writer)
        outcome = self._note_checks.check(note, member, largest_time)
        if isinstance(outcome, Refused):
            return outcome
        number, new_offsets = outcome
        if member is None:
            member = self._join(note.writer, now)
        track = self.domains.accept(member, number, note, new_offsets, now)
        has_time = note.time is not None or note.state != "live"
        if has_time and track.membership.reason is None and not note.takes_over:
            return self._accepted[number]
        return self.answer(note)

    def is_repeat(self, note: Note) -> bool:
        """Return whether a note of this request was accepted before."""
        member = self._members.get(note.writer)
        if member is None or note.sequence is None or note.sequence != member.sequence:
            return False
        return note.session in {None, member.session.id}  # two clocks may give one number

    def report_late(
        self, note: Note, noted_at: int, *, is_repeat: bool = False
    ) -> list[DomainReport]:
        """Return the late rows that an accepted note reports or leaves unreported.

        It was accepted at `noted_at` (Unix ms).

        Without a largest time, rows may have any time below the lower. Rows of a repeated request
        (`is_repeat`) are not counted.
        """
        reports: list[DomainReport] = []
        if not is_repeat:
            reports += self._report_late_rows(note, noted_at)
        for domain, least_time in self.domains.latecomers:
            max_time = domain.lower - 1
            lateness = 0
            if least_time is not None:
                max_time = max(least_time, max_time)
                lateness = max(0, domain.lower - least_time)
            late_report = LateReport(
                note.writer,
                0,
                least_time,
                max_time,
                noted_at,
                noted_at,
                lateness,
                may_have_more=True,
            )
            reports.append((domain.name, late_report))
        self.domains.latecomers.clear()
        return reports

    def _report_late_rows(self, note: Note, noted_at: int) -> Iterator[DomainReport]:
        domain = self.domains[self._note_checks.find_domain(note)]
        for late_rows in list_reports(note.late_rows):
            max_time = late_rows.max_time
            if max_time is None:
                max_time = domain.lower - 1
            max_time = max(late_rows.min_time, max_time)
            whole_rows = LateRows(late_rows.rows, late_rows.min_time, max_time)
            self.member(note.writer).report_late(domain.name, whole_rows)
            domain.late_rows += late_rows.rows
            lateness = 0
            if domain.last:
                lateness = max(0, domain.lower - late_rows.min_time)
            late_report = LateReport(
                note.writer,
                late_rows.rows,
                late_rows.min_time,
                max_time,
                noted_at,
                noted_at,
                lateness,
            )
            yield domain.name, late_report

    def answer(self, note: Note) -> Accepted:
        """Return the current answer to an accepted note.

        The answer to a note that joins without a time has the writer's position and times, too.
        """
        member = self.member(note.writer)
        domain_numbers = self.domains.numbers
        number = domain_numbers[self._note_checks.find_domain(note)]
        lower = self._accepted[number].lower
        membership = member.track(number).membership
        exclusion = membership.exclusion
        is_in_mark = membership.reported is not None or membership.status == "returned_below"
        if exclusion and exclusion.reason == "timed_out" and not is_in_mark:
            exclusion = None  # no mark has excluded it yet
        if exclusion:
            exclusion = replace(exclusion, lower=lower)
        lost_ids: tuple[str, ...] = ()
        if note.takes_over and note.session:
            lost_ids = tuple(session.id for session in member.session.lost)
        answer = Accepted(lower, exclusion, took_over=lost_ids or None)
        if note.state != "live" or note.time is not None:
            return answer
        timeout_ms = member.terms.timeout_ms or self.settings.writer_timeout_ms
        if not member.position:
            return replace(answer, timeout_ms=timeout_ms)
        times: dict[str, int] = {}
        for domain, domain_number in domain_numbers.items():
            time = member.track(domain_number).time
            if time > BEFORE_ALL_TIME:
                times[domain] = time
        return replace(answer, position=member.position, times=times, timeout_ms=timeout_ms)

    def next_timeout(self) -> int | None:
        """Return the earliest moment when a writer may time out (service clock), or `None`."""
        timeout_ms = self.settings.writer_timeout_ms
        times = (domain.next_timeout(timeout_ms) for domain in self.domains)
        return min((time for time in times if time is not None), default=None)

    def may_advance(self, domain: str) -> bool:
        """Return whether `advance` would return a mark now."""
        return not self.is_expiring and self.domains[domain].next_step() is not None

    def settle_members(self, domain: str) -> bool:
        """Continue an advance past many members, and return whether it is finished."""
        return self.domains[domain].settle(self.settings.writer_timeout_ms)

    def may_name_more_than(self, domain: str, count: int) -> bool:
        """Return whether the next mark may have to name more writers."""
        return self.domains[domain].roster.may_name_more_than(count)

    def name_some(self, domain: str, count: int) -> Named | None:
        """Name `count` writers of the next mark, or return `None` if `advance` can name the rest.

        The caller has to store them before the mark. Nothing may change from the first call until
        `advance`, which then returns a mark.
        """
        domain_state = self.domains[domain]
        step = domain_state.next_step()
        if step is None:
            return None
        return domain_state.name_some(step, count)

    def advance(self, domain: str, *, now: int, written_at: int) -> Mark | None:
        """Advance the watermark as far as the notes allow; return the new mark, if any."""
        domain_state = self.domains[domain]
        step = None if self.is_expiring else domain_state.next_step()
        if step is None:
            return None
        timeout_ms = self.settings.writer_timeout_ms
        mark = domain_state.advance(step, now=now, written_at=written_at, timeout_ms=timeout_ms)
        self._accepted[self.domains.numbers[domain]] = _build_accepted(domain_state)
        return mark

    def decide(self, domain: str, now: int) -> Decision:
        """Return the decision for `domain` with its reason, or raise `UnknownDomain`."""
        return decide(self.domains[domain], now, self.settings.writer_timeout_ms)

    def dry_run(
        self, domain: str, removed_writers: Collection[str], writer_timeout_ms: int | None, now: int
    ) -> DryRun:
        """Return the outcome without these writers or with another timeout; nothing changes.

        Raises `UnknownDomain` and `UnknownWriter`.
        """
        excluding = {
            writer for writer in removed_writers if self.member(writer).excluded != "removed"
        }
        return dry_run(self.domains, self.domains[domain], excluding, writer_timeout_ms, now)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, writer: str) -> bool:
        return writer in self._members

    def writers(self) -> Iterator[str]:
        """Yield the members' names in the order of joining."""
        return iter(self._members)

    def member(self, writer: str) -> Member:
        """Return a member for reading, or raise `UnknownWriter`."""
        try:
            return self._members[writer]
        except KeyError:
            raise UnknownWriter(writer) from None

    def find_writer_of(self, segment: int, offset: int) -> str | None:
        """Return an early member that noted the segment up to this offset, or `None`."""
        members: Iterator[Member] = islice(self._members.values(), MEMBERS_EXAMINED)
        segment_writer = self.domains.segment_writers.writer(segment)
        if segment_writer is not None:
            members = chain((segment_writer,), members)
        for member in members:
            if member.writer and member.position.get(segment, 0) >= offset:
                return member.writer
        return None

    def record(self, writer: str) -> MemberRecord:
        """Return the stored row of a member, or raise `UnknownWriter`."""
        return record_of(self.member(writer), self.domains.numbers)

    def take_unstored(self) -> set[str]:
        """Return the writers whose membership has changed since the last call."""
        writers: set[str] = set()
        for domain in self.domains:
            writers |= domain.roster.unstored
            domain.roster.unstored.clear()
        return writers

    @property
    def has_postponed(self) -> bool:
        """Whether some memberships may be stored later, see `take_postponed`."""
        return any(domain.roster.postponed for domain in self.domains)

    def take_postponed(self, count: int) -> set[str]:
        """Return at most `count` writers whose memberships are stored after their mark."""
        writers: set[str] = set()
        for domain in self.domains:
            postponed_writers = domain.roster.postponed
            taken_writers = list(islice(postponed_writers, count - len(writers)))
            for writer in taken_writers:
                del postponed_writers[writer]
            writers.update(taken_writers)
        return writers

    def postpone(self, domain: str, writers: Iterable[str]) -> None:
        """Store the memberships of the writers again, because the database has earlier ones."""
        domain_state = self.domains[domain]
        number = self.domains.numbers[domain]
        for writer in writers:
            domain_state.roster.postpone_again(self.member(writer).track(number))

    def take_changed_memberships(self, writer: str) -> Iterator[ChangedMembership]:
        """Yield each domain where the database has another membership of the writer.

        The caller has to store them all.
        """
        member = self.member(writer)
        for domain, track in self.domains.list_tracks(member):
            if track.membership is ALWAYS_COUNTED and track.stored is None and member.is_active:
                continue  # almost all
            if track.membership is track.stored:
                continue
            row = domain.roster.find_row(track)
            if row != track.stored:
                yield ChangedMembership(domain.name, row, domain.roster.last_seq)
                track.stored = row
                domain.roster.postponed.pop(writer, None)

    def _join(self, writer: str, now: int, state: State = "finished") -> Member:
        member = Member(writer, state, noted_served_ms=now, changed_served_ms=now)
        self.domains.join(member)
        self._members[writer] = member
        return member

    def expect(self, writers: Iterable[str], now: int) -> list[str]:
        """Let the watermark wait for the writers that are not members yet, and return these.

        Raises `StreamSealed`.
        """
        new_writers = [writer for writer in writers if writer not in self._members]
        if new_writers:
            self._check_open("writers")
        for writer in new_writers:
            member = self._join(writer, now, "live")
            member.expected_at = now + self.domains.unix_ahead
            self.domains.expect(member, now)
        return new_writers

    def remove(self, writer: str, now: int, operator: str | None = None) -> None:
        """Exclude a writer at its last position, and ignore its times.

        Raises `UnknownWriter` and `StreamSealed`.
        """
        self._check_open("changes of its writers")
        member = self.member(writer)
        if member.excluded != "removed":
            member.terms = replace(_end_suspension(member.terms), removed_by=operator)
            self.domains.exclude(member, "removed", now)

    def end_narrowing(self, writer: str, domain: str) -> None:
        """Let the writer not be missing in a domain that it dropped.

        Raises the same as `remove`, `UnknownDomain`, and `Rejected` if it did not drop the domain.
        """
        self._check_open("changes of its writers")
        member = self.member(writer)
        domain_state = self.domains[domain]
        track = member.track(self.domains.numbers[domain])
        if not track.is_narrowed:
            raise Rejected(f"writer {writer!r} did not drop the domain {domain}, or notes it again")
        domain_state.roster.end_narrowing(track)

    def suspend_timeout(
        self,
        writer: str,
        ends_served_ms: int | None,
        operator: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Suspend a writer's timeout until a moment of the service clock, or end this (`None`).

        Raises the same as `remove`, and `NotLive` if the watermark does not wait for the writer.
        """
        self._check_open("changes of its writers")
        member = self.member(writer)
        terms = _end_suspension(member.terms)
        if ends_served_ms is not None:
            if not member.is_active:
                raise NotLive(writer, "excluded" if member.excluded else member.state)
            terms = replace(
                terms,
                suspension_ends_served_ms=ends_served_ms,
                suspended_by=operator,
                suspension_reason=reason,
            )
        self.domains.set_terms(member, terms)

    def expire(self, now: int, limit: int = MAX_INT64) -> tuple[str, ...]:
        """Exclude the members that have timed out, and return their names.

        It excludes `limit` members, and the next calls exclude the others (`is_expiring`). No mark
        is made before the last one, so the marks are the same as after one call.
        """
        names: list[str] = []
        self.is_expiring = True
        while len(names) < limit:
            if not self._overdue:
                # members that the last ones held back in other domains may be overdue now
                self._overdue.extend(self.domains.find_overdue(now).values())
            if not self._overdue:
                self.is_expiring = False
                break
            member = self._overdue.popleft()
            if self.domains.is_still_overdue(member, now):
                self.domains.exclude(member, "timed_out", now)
                names.append(member.writer)
        return tuple(names)

    def forget_departed(self, now: int, limit: int) -> tuple[str, ...]:
        """Drop and return at most `limit` writers that departed before the writer retention."""
        departed_members = self.domains.forget(now - self.settings.writer_retention_ms, limit)
        for member in departed_members:
            del self._members[member.writer]
        return tuple(member.writer for member in departed_members)

    def restore(
        self,
        records: Iterable[MemberRecord],
        memberships: Mapping[str, Mapping[str, Membership]],
        absences: Mapping[str, Mapping[str, ReportedAbsence]] | None = None,
    ) -> None:
        """Restore the members after a restart, and the missing writers that are none any more.

        `memberships` has those stored of each writer, by domain. `absences` has those in the
        ledger, by domain and writer.

        Only latest positions are stored, so the next cut may be larger than necessary, but is
        sound.
        """
        for record in records:
            member = Member(record.writer, record.state, terms=record.terms)
            self.domains.restore(member, record, memberships.get(record.writer, {}))
            self._members[record.writer] = member
        for domain in self.domains:
            domain_absences = (absences or {}).get(domain.name, {})
            domain.roster.add_forgotten(
                {
                    writer: absence
                    for writer, absence in domain_absences.items()
                    if writer not in self._members
                }
            )
        last_note_at = max((member.noted_served_ms for member in self._members.values()), default=0)
        for domain in self.domains:
            domain.finish_restore(last_note_at, self.settings.writer_timeout_ms)
            self.domains.add_forgotten_rows(domain)

    def scale(self, event: ScaleEvent) -> None:
        """Apply a scale event.

        Raises `InvalidScale`, `TooManySegments` or `StreamSealed` without a change.
        """
        self._check_open("scale events")
        apply_scale(self.domains, self.succession, event)

    def set_first_cuts(self, first_cuts: Iterable[Mapping[int, int]]) -> None:
        """Stop counting sealed segments below the first kept mark of each domain."""
        self.domains.segments.stop_counting_sealed(self.succession.final, first_cuts)

    def seal(self, request: SealRequest, *, now: int, written_at: int) -> Slices[Seal]:
        """Append the last marks and finish every member.

        A repeated request changes nothing; another one raises `AlreadySealed`.
        """
        if self.sealed is None:
            self.sealed = yield from seal(
                self.domains, self.succession, request, now=now, written_at=written_at
            )
            self._accepted = [_build_accepted(domain) for domain in self.domains]
        elif self.sealed.request != request:
            raise AlreadySealed
        return self.sealed

    def check_settings(self, settings: StreamSettings) -> list[str]:
        """Return the domains that the settings add, or raise `Rejected` or `StreamSealed`."""
        missing_domains = [name for name in self.settings.domains if name not in settings.domains]
        if missing_domains:
            raise Rejected(
                f"domains can be added, but not removed: {', '.join(missing_domains)} missing"
            )
        added_domains = [name for name in settings.domains if name not in self.domains.numbers]
        if added_domains:
            self._check_open("domains")
        return added_domains

    def reconfigure(self, settings: StreamSettings, now: int) -> list[str]:
        """Apply changed settings and return the writers whose lateness changed.

        Raises as `check_settings`.
        """
        for name in self.check_settings(settings):
            domain = Domain(name, self.domains.segment_writers, moved_at=now)
            domain.roster.declared_served_ms = now
            self._accepted.append(_build_accepted(domain))
            self.domains.declare(domain)
        return self.domains.reconfigure(settings, now)

    def _check_open(self, changes: str) -> None:
        if self.sealed is not None:
            raise StreamSealed(changes)


def _end_suspension(terms: Terms) -> Terms:
    return replace(terms, suspension_ends_served_ms=None, suspended_by=None, suspension_reason=None)


def _build_accepted(domain: Domain) -> Accepted:
    return Accepted(domain.roster.last_lower)
