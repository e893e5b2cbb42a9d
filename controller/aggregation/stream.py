"""One stream in memory: its members, marks and readers, and when its next mark is due."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Unpack

from msgspec.structs import replace

from controller.aggregation import missing
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.fencing import Fences, Takeovers
from controller.aggregation.groups import ReaderGroups
from controller.aggregation.membership_rows import MembershipRows
from controller.aggregation.refused_times import RefusedTimes
from controller.store.port import Store, StreamSummary
from controller.store.records import (
    AppendedMark,
    BacklogRecord,
    LateRecord,
    LedgerEntry,
    LedgerPart,
    ReaderRecord,
    StoredMembership,
    StoredScale,
    StreamRecord,
    StreamRecordChanges,
)
from noted_time.answers import EntryAnswer
from noted_time.reading import MOST_REPORTS, Coverage, LateReports, MarkHistory, MissingWriters
from noted_time.rules import Aggregator, MemberRecord, Seal, Track
from noted_time.values import (
    CLOCK_STEP_MS,
    LARGEST_TIME,
    MAX_INT64,
    MIN_INT64,
    WRITERS_NAMED,
    Absence,
    Accepted,
    Mark,
    Missing,
    Note,
    OtherLog,
    Refused,
    ReportClock,
    ScaleEvent,
    Session,
    StreamSettings,
    Succession,
    TimeWindow,
    UnknownDomain,
)

CLOCKS_APART_MS = 100

EXCLUDED_AT_ONCE = 1000
"""A commit with so many exclusions takes about 0.1 s."""

NAMED_AT_ONCE = 1000
"""If a mark names more writers, they are stored before it, so many in each commit."""


@dataclass(slots=True)
class PartedMark:
    """A mark that names so many writers that they are stored in parts before it."""

    domain: str
    part_count: int = 0
    removed_writers: list[str] = field(default_factory=list)


class StreamState:
    """The running state of one stream.

    During a commit, the aggregator is ahead of the histories: a mark is shown once it is durable.
    """

    def __init__(self, record: StreamRecord) -> None:
        self.record = record
        self.aggregator = Aggregator(record.settings)
        self.histories: dict[str, MarkHistory] = {}
        self.appended_served_ms: dict[str, array[int]] = {}
        self.missing: dict[str, MissingWriters] = {}
        self.late_reports: dict[str, LateReports] = {}
        self._add_domains(record.settings.domains)
        self.groups = ReaderGroups(record.id)
        self.scale_events: list[ScaleEvent] = []
        self.excluded = 0
        self.lost_marks = 0
        self.fences = Fences()
        self.refused_times = RefusedTimes()
        self.clock_ahead = 0  # the bucket's service clock less this process's
        self.latest_ms = 0
        self.reported_served_ms = MIN_INT64  # when late rows were last reported
        self._unix_shift = 0
        self._wall_ahead: int | None = None  # of the monotonic clock, at the last such report
        self._next_mark_at: dict[str, int] = {}
        self._parted: PartedMark | None = None

    @classmethod
    def load(cls, record: StreamRecord, store: Store) -> StreamState:
        stream = cls(record)
        scales = store.load(StoredScale, record.id)
        succession = stream._replay_scales(scale.event for scale in scales)
        last: dict[str, tuple[Mark, int]] = {}
        for domain in stream.histories:
            for appended_mark in store.marks(record.id, domain):
                stream.publish(appended_mark)
                last[domain] = (appended_mark.mark, appended_mark.appended_served_ms)
        stream.publish_seal(record.seal)
        declared_served_ms = record.declared_served_ms
        stream.aggregator = Aggregator(
            record.settings,
            succession,
            last,
            declared_served_ms,
            initial_seal=record.seal,
            unbounded_domains=record.unbounded,
            forgotten_lowers=record.forgotten_lowers,
        )
        stream.latest_ms = max((served_ms for _, served_ms in last.values()), default=0)
        rows = MembershipRows(store.load(StoredMembership, record.id))
        stream.missing = missing.read_missing(record, store, rows)
        missing.connect(stream.missing, stream.aggregator)
        members = stream._remember_latest(store.members(record.id))
        stream.aggregator.restore(members, rows.memberships)
        for domain, writers in rows.completed.items():
            stream.aggregator.postpone(domain, writers)
        missing.add_reported(stream.missing, stream.aggregator)
        stream._restore_late_reports(store.load(LateRecord, record.id))
        stream.settle()
        readers = store.load(ReaderRecord, record.id)
        reported_at = stream.groups.restore(readers, store.load(BacklogRecord, record.id))
        stream.latest_ms = max(stream.latest_ms, reported_at)
        return stream

    def _remember_latest(self, members: Iterable[MemberRecord]) -> Iterator[MemberRecord]:
        for record in members:
            self.latest_ms = max(self.latest_ms, record.noted_served_ms, record.changed_served_ms)
            yield record

    def _replay_scales(self, events: Iterable[ScaleEvent]) -> Succession:
        succession = Succession()
        self.scale_events = list(events)
        for event in self.scale_events:
            succession.scale(event, known_segments=event.sealed.keys())
        return succession

    def _restore_late_reports(self, late_records: Sequence[LateRecord]) -> None:
        for domain in self.late_reports:
            reports = [record.report for record in late_records if record.domain == domain]
            late_from_time = self.record.late_from_time.get(domain, MIN_INT64)
            seen_from_served_ms = self.record.late_seen_from_served_ms.get(domain, MIN_INT64)
            if self.record.report_clock is None:
                seen_from_served_ms = MAX_INT64  # not known
            self.late_reports[domain] = LateReports(reports, late_from_time, seen_from_served_ms)
        for record in late_records:
            seen_served_ms = record.report.seen_served_ms
            if seen_served_ms is not None:
                self.reported_served_ms = max(self.reported_served_ms, seen_served_ms)

    def summary(self) -> StreamSummary:
        last = {domain: history.last for domain, history in self.histories.items() if history.last}
        return StreamSummary(self.record, last, self.scale_events)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def settings(self) -> StreamSettings:
        return self.record.settings

    def served_ms(self, moment: Moment) -> int:
        return moment.service + self.clock_ahead

    def unix_shift(self, moment: Moment) -> int:
        """Return the difference between Unix ms and the service clock.

        It stays the same within `CLOCKS_APART_MS`, so a moment is always shown as the same time.
        """
        shift = moment.wall - self.served_ms(moment)
        if abs(shift - self._unix_shift) > CLOCKS_APART_MS:
            self._unix_shift = shift
        return self._unix_shift

    def begin(self, draft: Draft) -> int:
        now = self.served_ms(draft.moment)
        self.aggregator.domains.unix_ahead = draft.moment.wall - now
        return now

    @property
    def is_naming(self) -> bool:
        """Whether a mark is made in several commits, so that the stream takes no changes."""
        return self._parted is not None

    def is_silence_over(self, moment: Moment) -> bool:
        if self.aggregator.is_expiring:
            return True
        due = self.aggregator.next_timeout()
        return due is not None and due <= self.served_ms(moment)

    def history(self, domain: str | None) -> MarkHistory:
        name = self.settings.domain_or_default(domain)
        try:
            return self.histories[name]
        except KeyError:
            raise UnknownDomain(name, self.settings.domains) from None

    def coverage(self, domain: str | None) -> Coverage:
        name = self.settings.domain_or_default(domain)
        roster = self.aggregator.domains[name].roster
        names = tuple(islice(roster.not_covered, WRITERS_NAMED))
        count = len(names)
        if count == WRITERS_NAMED:
            count = len(roster.newcomers) + len(roster.unpublished)
        newcomers = Missing(names, count, joined_later=count, is_known=True)
        first = self.record.first_lowers.get(name)
        return Coverage(self.missing[name], self.late_reports[name], first, newcomers)

    def window(self, position: Mapping[int, int], domain: str | None) -> TimeWindow:
        return self.history(domain).window(self.aggregator.succession.normalise(position))

    def windows(self, position: Mapping[int, int]) -> dict[str, TimeWindow]:
        whole_position = self.aggregator.succession.normalise(position)
        return {
            domain: history.window(whole_position) for domain, history in self.histories.items()
        }

    def take_notes(
        self, notes: Sequence[Note], draft: Draft, most_writers: int
    ) -> list[Accepted | Refused]:
        """Aggregate the notes in order, and return the outcome of each.

        At `most_writers`, new writers are refused.
        """
        is_crowded = (
            len(self.aggregator) + len(notes) > most_writers and self.aggregator.sealed is None
        )
        aggregate = self.aggregator.note
        now = self.begin(draft)
        self._find_report_clock(draft)
        largest_time = self._find_largest_time(draft.moment)
        every_advance = self.settings.mark_interval_ms == 0
        touched_writers = draft.touch(self)
        results = []
        takeovers = Takeovers(self.aggregator)
        is_repeat = self.aggregator.is_repeat
        latecomers = self.aggregator.domains.latecomers
        repeating_writers = {
            note.writer for note in notes if note.late_rows is not None and is_repeat(note)
        }
        result: Accepted | Refused
        for note in notes:
            is_full = is_crowded and len(self.aggregator) >= most_writers
            logs = self.record.logs
            if is_full and note.writer not in self.aggregator:
                result = Refused("too_many_writers", most_writers)
            elif note.log is not None and logs and note.log not in logs:
                result = Refused("another_log", OtherLog(logs[-1], note.log))
            else:
                if note.takes_over or note.took_over:
                    takeovers.watch(note)
                result = aggregate(note, now, largest_time)
            if type(result) is Accepted:
                touched_writers.add(note.writer)
                self.refused_times.accept(note)
                if note.log is not None and not logs:
                    self.rewrite(draft, logs=(note.log,))
                if note.late_rows is not None or latecomers:
                    self._report_late(note, draft, is_repeated=note.writer in repeating_writers)
                if every_advance and self._advance_all(draft):
                    result = self.aggregator.answer(note)
            elif isinstance(result, Refused) and isinstance(result.last, Session):
                self.fences.refuse(note, result.last, draft.moment.wall)
            elif isinstance(result, Refused) and result.status == "too_far_ahead":
                self.refused_times.refuse(note, result, draft.moment.wall)
            results.append(result)
        self.keep_unbounded(draft)
        changes = takeovers.list_changes(self.id, draft.moment.wall, now, self.fences)
        draft.batch.put(*changes)
        return results

    def begin_report_clock(self, draft: Draft) -> ReportClock:
        moment = draft.moment
        self._wall_ahead = moment.wall - moment.steady
        clock = ReportClock.begin(self.served_ms(moment), moment.wall)
        self.rewrite(draft, report_clock=clock)
        return clock

    def _find_report_clock(self, draft: Draft) -> ReportClock:
        """Return the clock, which begins now in a database of before.

        Reports of before may have been deleted.
        """
        if self.record.report_clock is not None:
            return self.record.report_clock
        for late_reports in self.late_reports.values():
            late_reports.seen_from_served_ms = self.served_ms(draft.moment)
        self.keep_known_from(draft)
        return self.begin_report_clock(draft)

    def _move_report_clock(self, draft: Draft) -> None:
        moment = draft.moment
        clock = self._find_report_clock(draft)
        now = self.served_ms(moment)
        wall_ahead = moment.wall - moment.steady
        before = self._wall_ahead
        self._wall_ahead = wall_ahead
        self.reported_served_ms = now
        has_stepped = before is not None and abs(wall_ahead - before) > CLOCK_STEP_MS
        new_clock = clock.follow(now, moment.wall, has_stepped=has_stepped)
        if new_clock != clock:
            self.rewrite(draft, report_clock=new_clock)

    def _report_late(self, note: Note, draft: Draft, *, is_repeated: bool) -> None:
        reports = self.aggregator.report_late(note, draft.moment.wall, is_repeat=is_repeated)
        if reports:
            self._move_report_clock(draft)
        for domain, late_rows in reports:
            report = replace(late_rows, seen_served_ms=self.served_ms(draft.moment))
            # a client reports single rows, with its session; a person reports all of them
            is_correction = note.session is None and not late_rows.may_have_more
            max_reports = max(1, MOST_REPORTS // len(self.late_reports))
            changed_reports = self.late_reports[domain].add(
                report, max_reports, is_correction=is_correction
            )
            for place, kept_report in changed_reports.items():
                if kept_report is None:
                    draft.batch.drop(LateRecord, self.id, domain, *place)
                else:
                    draft.batch.put(LateRecord(self.id, domain, *place, kept_report))
        self.keep_known_from(draft)

    def withdraw_late(self, writer: str, draft: Draft) -> None:
        """Drop the reports of late rows of a removed writer that can have none.

        Where a mark has still to name the removal, which may be a mistake, that mark drops them.
        """
        member = self.aggregator.member(writer)
        for domain, track in self.aggregator.domains.list_tracks(member):
            if not track.membership.is_unreported:
                self._withdraw_late_in(domain.name, track, draft)

    def _withdraw_late_in(self, domain: str, track: Track, draft: Draft) -> None:
        """Drop a writer's reports if it has no position, and noted nothing below a lower."""
        late_reports = self.late_reports[domain]
        member = track.member
        writer = member.writer
        has_late = any(
            report.writer == writer and report.min_time is not None for report in late_reports
        )
        if member.position or has_late or track.membership.first_time is not None:
            return
        for place in late_reports.drop_without_least(writer):
            draft.batch.drop(LateRecord, self.id, domain, *place)

    def keep_known_from(self, draft: Draft) -> None:
        known_from: StreamRecordChanges = {
            "ledger_from_time": _collect_known_from(self.missing, "known_from"),
            "late_from_time": _collect_known_from(self.late_reports, "known_from"),
            "late_seen_from_served_ms": _collect_known_from(
                self.late_reports, "seen_from_served_ms"
            ),
        }
        if any(getattr(self.record, name) != times for name, times in known_from.items()):
            self.rewrite(draft, **known_from)

    def exclude_silent_writers(self, draft: Draft) -> tuple[str, ...]:
        """Exclude at most `EXCLUDED_AT_ONCE` writers that have timed out, and return their names.

        No mark is made before the last ones are excluded.
        """
        was_expiring = self.aggregator.is_expiring
        names = self.aggregator.expire(self.begin(draft), EXCLUDED_AT_ONCE)
        if names or was_expiring:
            self.excluded += len(names)
            draft.touch(self).update(names)
        return names

    def keep_unbounded(self, draft: Draft) -> None:
        unbounded_domains = self.aggregator.unbounded
        if unbounded_domains != self.record.unbounded:
            self.rewrite(draft, unbounded=unbounded_domains)

    def keep_forgotten(self, draft: Draft) -> None:
        self.keep_unbounded(draft)
        lowers = self.aggregator.forgotten_lowers
        if lowers != self.record.forgotten_lowers:
            self.rewrite(draft, forgotten_lowers=lowers)

    def rewrite(self, draft: Draft, **changes: Unpack[StreamRecordChanges]) -> None:
        self.record = replace(self.record, **changes)
        draft.batch.put(self.record)

    def take_settings(self, settings: StreamSettings, draft: Draft) -> None:
        now = self.served_ms(draft.moment)
        added_domains = {domain: now for domain in settings.domains if domain not in self.histories}
        declared_served_ms = {**self.record.declared_served_ms, **added_domains}
        self.rewrite(draft, settings=settings, declared_served_ms=declared_served_ms)
        self._add_domains(added_domains)
        self._next_mark_at.clear()

    def _add_domains(self, domains: Iterable[str]) -> None:
        for domain in domains:
            self.histories[domain] = MarkHistory()
            self.appended_served_ms[domain] = array("q")
            self.missing[domain] = MissingWriters()
            self.late_reports[domain] = LateReports()
        missing.connect(self.missing, self.aggregator)

    def advance_due(self, draft: Draft) -> int | None:
        """Append due marks, and return the ms until the next is due.

        It is 0 if members are not settled yet, and `None` if no domain waits.
        """
        if self._parted is not None:
            self._name_or_advance(self._parted, draft)
            return 0
        moment = draft.moment
        waits: list[int] = []
        settle = self.aggregator.settle_members
        for domain in self.settings.domains:
            is_settled = settle(domain)
            if is_settled and self.aggregator.may_advance(domain):
                wait = self._find_due_time(domain, moment) - moment.steady
                if wait > 0:
                    waits.append(wait)
                    continue
                if self.aggregator.may_name_more_than(domain, NAMED_AT_ONCE):
                    # from the next draft on, which writes no member that this one has changed
                    self._parted = PartedMark(domain)
                    return 0
                self._advance(domain, draft)
                is_settled = settle(domain)
            if not is_settled:
                waits.append(0)
        if self.aggregator.has_postponed:
            draft.touch(self)
            waits.append(0)
        return min(waits, default=None)

    def _name_or_advance(self, parted_mark: PartedMark, draft: Draft) -> None:
        """Store some of the writers that the mark names, or append the mark.

        No member is written before the mark, because its row would be ahead of the marks.
        """
        domain = parted_mark.domain
        named_writers = self.aggregator.name_some(domain, NAMED_AT_ONCE)
        if named_writers is None:
            self._advance(domain, draft)
            self._parted = None
            return
        last = self.aggregator.domains[domain].last
        next_seq = 1
        from_lower = None
        if last is not None:
            next_seq = last.seq + 1
            from_lower = last.lower
        part = LedgerPart(
            self.id,
            domain,
            next_seq,
            parted_mark.part_count,
            self.served_ms(draft.moment),
            from_lower,
            named_writers.lower,
            named_writers.absences + named_writers.joined,
            named_writers.returned_writers,
        )
        parted_mark.part_count += 1
        parted_mark.removed_writers += named_writers.list_removed()
        draft.batch.put(part)

    def publish_joined(self, domain: str, writers: Iterable[Absence]) -> None:
        joined_writers = (absence.writer for absence in writers if absence.joined_later)
        self.aggregator.domains[domain].roster.publish_joined(joined_writers)

    def publish(self, appended_mark: AppendedMark) -> None:
        self.histories[appended_mark.domain].append(appended_mark.mark, appended_mark.last_writer)
        self.appended_served_ms[appended_mark.domain].append(appended_mark.appended_served_ms)

    def forget_marks(self, domain: str, through: int) -> None:
        history = self.histories[domain]
        appended_served_ms = self.appended_served_ms[domain]
        history.forget_through(through)
        del appended_served_ms[: len(appended_served_ms) - len(history)]
        self.settle()

    def settle(self) -> None:
        """Stop counting sealed segments that end below the first kept marks."""
        first_cuts: list[Mapping[int, int]] = []
        for history in self.histories.values():
            first_cuts.append({} if history.first is None else history.first.cut.offsets)
        self.aggregator.set_first_cuts(first_cuts)

    def publish_seal(self, seal: Seal | None) -> None:
        if seal is not None:
            for history in self.histories.values():
                history.seal(seal.final_cut)

    @property
    def final_cut(self) -> Mapping[int, int] | None:
        return next(iter(self.histories.values())).final_cut

    def _find_largest_time(self, moment: Moment) -> int:
        ahead = self.settings.max_time_ahead_ms
        if ahead is None:
            return LARGEST_TIME
        return min(moment.wall + ahead, LARGEST_TIME)

    def _find_due_time(self, domain: str, moment: Moment) -> int:
        """Return when the interval since the last mark is over (steady clock).

        After a restart, the wall clock replaces the steady clock, for at most one interval.
        """
        due = self._next_mark_at.get(domain)
        if due is None:
            last = self.histories[domain].last
            interval = self.settings.mark_interval_ms
            wait_ms = 0
            if last is not None:
                wait_ms = last.written_at + interval - moment.wall
            due = self._next_mark_at[domain] = moment.steady + max(0, min(wait_ms, interval))
        return due

    def _advance_all(self, draft: Draft) -> bool:
        """Advance each domain, unless its mark has to be made in several commits."""
        has_advanced = False
        for domain in self.settings.domains:
            if self.aggregator.may_name_more_than(domain, NAMED_AT_ONCE):
                continue
            if self._advance(domain, draft) is not None:
                has_advanced = True
        return has_advanced

    def _advance(self, domain: str, draft: Draft) -> Mark | None:
        moment = draft.moment
        before = self.aggregator.domains[domain].last
        now = self.served_ms(moment)
        mark = self.aggregator.advance(domain, now=now, written_at=moment.wall)
        if mark is not None:
            draft.touch(self)
            self.keep_unbounded(draft)
            self._next_mark_at[domain] = moment.steady + self.settings.mark_interval_ms
            self.append(domain, before, mark, draft)
        return mark

    def append(
        self,
        domain: str,
        before: Mark | None,
        mark: Mark,
        draft: Draft,
        decided_by: str | None = None,
    ) -> None:
        running = self.aggregator.domains[domain]
        now = self.served_ms(draft.moment)
        roster = running.roster
        appended_mark = AppendedMark(self.id, domain, mark, now, running.last_writer)
        draft.batch.put(appended_mark)
        if before is None:
            self.rewrite(draft, first_lowers={**self.record.first_lowers, domain: mark.lower})
        named_writers = roster.named
        parted_mark = self._parted or PartedMark(domain)
        absences = named_writers.absences + named_writers.joined
        returned_writers = named_writers.returned_writers
        if not absences and not returned_writers and not parted_mark.part_count:
            return
        lowers = (before.lower if before else None, mark.lower)
        missing = self.missing[domain]
        known_from = missing.find_known_from(lowers, absences, returned_writers)
        if known_from != missing.known_from or parted_mark.part_count:
            missing.known_from = known_from
            self.keep_known_from(draft)
        removed_writers = parted_mark.removed_writers + named_writers.list_removed()
        for writer in removed_writers:
            member = self.aggregator.member(writer)
            decided_by = decided_by or member.terms.removed_by
            track = member.track(self.aggregator.domains.numbers[domain])
            self._withdraw_late_in(domain, track, draft)
        answer = EntryAnswer(
            mark.seq, mark.written_at, *lowers, absences, decided_by or None, returned_writers
        )
        draft.batch.put(LedgerEntry(self.id, domain, now, answer, parted_mark.part_count))


def _collect_known_from(
    records: Mapping[str, MissingWriters | LateReports], name: str
) -> dict[str, int]:
    known_from = {}
    for domain, record in records.items():
        time = getattr(record, name)
        if time != MIN_INT64:
            known_from[domain] = time
    return known_from
