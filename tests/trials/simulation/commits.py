"""Follows the commits and answers of a schedule, and checks their laws."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from controller.store.records import (
    AppendedMark,
    BucketClock,
    Change,
    ChangeSet,
    StoredMember,
    StoredMembership,
    StoredScale,
    StreamRecord,
)
from noted_time.client import position_to_wire
from noted_time.rules import MemberRecord
from noted_time.values import Accepted, Mark, Note, Refused
from tests.trials import laws
from tests.trials.facts import Scaling
from tests.trials.judge import check_law
from tests.trials.law import Found, P, name_law
from tests.trials.laws import DOMAIN


class Moment(NamedTuple):
    """When (service clock) a time was noted, or reached by a mark."""

    at: int
    time: int


@dataclass
class Stream:
    """The committed state of a stream, and the least timeout that was in force during a batch.

    `out` has the writers that are excluded, or have not caught up since.
    """

    record: StreamRecord
    members: dict[str, MemberRecord] = field(default_factory=dict)
    out: frozenset[str] = frozenset()
    noted: defaultdict[str, list[Moment]] = field(default_factory=lambda: defaultdict(list))
    reached: list[Moment] = field(default_factory=list)
    owed: set[str] = field(default_factory=set)
    scalings: list[Scaling] = field(default_factory=list)
    latest: int = 0
    last: Mark | None = None
    timeout_ms: float = inf

    def overtaken(self, writer: str, time: float) -> int | None:
        """Return when another first noted a later time, or a mark reached this one."""
        moments = [mark.at for mark in self.reached if mark.time >= time][:1]
        for name, notes in self.noted.items():
            if name != writer:
                moments += [note.at for note in notes if note.time > time][:1]
        return min(moments, default=None)


Sent = Mapping[tuple[str, str], list[Note]]


class Commits:
    """All commits, and the laws that they break.

    `sent` has the notes of each writer of a stream, sent or about to be; the caller adds to it.
    """

    def __init__(self, sent: Sent, violations: list[str], checked: Counter[str]) -> None:
        self._sent = sent
        self.violations = violations
        self.checked = checked
        self.streams: dict[str, Stream] = {}
        self._clocks: dict[int, int] = {}

    def check(self, check: Callable[P, Found], *facts: P.args, **named_facts: P.kwargs) -> None:
        """Count a law, and keep what breaks it."""
        self.checked[name_law(check)] += 1
        self.violations += map(str, check_law(check, *facts, **named_facts))

    def broke(self, law: str, *facts: object) -> None:
        """Keep the facts of a law that is broken."""
        self.violations.append(f"{law}: {', '.join(map(str, facts))}")

    def judge_batch(self, batch: ChangeSet, now_s: float) -> None:
        """Judge a batch by earlier batches, and by the notes sent."""
        for stream in self.streams.values():
            stream.timeout_ms = stream.record.settings.writer_timeout_ms
        for record in batch.list_puts(StreamRecord):
            stream = self.streams.setdefault(record.id, Stream(record))
            stream.record = record
            stream.timeout_ms = min(stream.timeout_ms, record.settings.writer_timeout_ms)
        for clock in batch.list_puts(BucketClock):
            bucket = clock.number
            ms = clock.served_ms
            was_ms = self._clocks.get(bucket, 0)
            self.check(laws.service_clocks_advance, was_ms, ms, now_s * 1000 + 1)
            self._clocks[bucket] = ms
        changes = batch.list_puts(Change)
        members = [
            (stored_member.stream_id, stored_member.member)
            for stored_member in batch.list_puts(StoredMember)
        ]
        truncated_ids = {change.stream_id for change in changes if change.action == "truncated"}
        forgotten = {stream_id for stream_id, _ in batch.truncated}
        self.check(laws.marks_are_deleted_by_order, forgotten, truncated_ids)
        marks = [
            appended_mark
            for appended_mark in batch.list_puts(AppendedMark)
            if appended_mark.domain == DOMAIN
        ]
        written_ids = {appended_mark.stream_id for appended_mark in marks} | {
            key for key, _ in members
        }
        before = {key: self.streams[key].members.copy() for key in written_ids}
        removed_keys = {
            (change.stream_id, change.writer) for change in changes if change.action == "removed"
        }
        were_out = {key: self.streams[key].out for key in written_ids}
        self._take_memberships(batch)
        self._judge_timeouts(members, before)
        for key, member in members:
            was = before[key].get(member.writer)
            starts_again = (key, member.writer) in removed_keys
            self._member(self.streams[key], was, member, starts_again=starts_again)
        for appended_mark in marks:
            stream = self.streams[appended_mark.stream_id]
            self._mark(
                stream,
                before[appended_mark.stream_id],
                were_out[appended_mark.stream_id],
                appended_mark.mark,
            )
            stream.last = appended_mark.mark
            stream.reached.append(
                Moment(appended_mark.appended_served_ms, appended_mark.mark.lower)
            )
            stream.latest = max(stream.latest, appended_mark.appended_served_ms)
        for scale in batch.list_puts(StoredScale):
            scaling = Scaling(scale.event.sealed, tuple(scale.event.created))
            self.streams[scale.stream_id].scalings.append(scaling)
        for key, member in members:
            if member.state == "live" and member.writer in self.streams[key].out - were_out[key]:
                self.streams[key].owed.add(member.writer)
        for appended_mark in marks:
            self.streams[appended_mark.stream_id].owed.difference_update(
                appended_mark.mark.excluded
            )

    def _take_memberships(self, batch: ChangeSet) -> None:
        for stream_id, domain, writer in batch.list_drops(StoredMembership):
            if domain == DOMAIN:
                self.streams[stream_id].out -= {writer}
        for stored_membership in batch.list_puts(StoredMembership):
            if stored_membership.domain == DOMAIN:
                stream = self.streams[stored_membership.stream_id]
                is_out = stored_membership.membership.exclusion is not None
                stream.out = stream.out - {stored_membership.writer} | (
                    {stored_membership.writer} if is_out else set()
                )

    def _member(
        self,
        stream: Stream,
        before: MemberRecord | None,
        after: MemberRecord,
        *,
        starts_again: bool,
    ) -> None:
        name = stream.record.name
        writer = after.writer
        time = after.times.get(DOMAIN)
        stream.members[writer] = after
        if (
            before is None
            or after.noted_served_ms != before.noted_served_ms
            or after.changed_served_ms != before.changed_served_ms
        ):
            latest = max(after.noted_served_ms, after.changed_served_ms)
            self.check(laws.service_clocks_advance, stream.latest, latest, inf)
            stream.latest = max(latest, stream.latest)
        if before is not None:
            self.check(laws.members_never_go_back, before, after, starts_again=starts_again)
        if stream.record.seal is None and after.sequence:
            number = after.sequence, after.session.id  # after a step back a new process repeats one
            noted_states = [
                n.state for n in self._sent[name, writer] if (n.sequence, n.session) == number
            ]
            self.check(laws.states_are_noted, after.state, noted_states)
        if starts_again:
            stream.noted[writer].clear()
        if after.state != "live" or writer not in stream.out:
            stream.owed.discard(writer)
        if time is not None and (not stream.noted[writer] or time > stream.noted[writer][-1].time):
            stream.noted[writer].append(Moment(after.noted_served_ms, time))

    def _judge_timeouts(
        self,
        members: Iterable[tuple[str, MemberRecord]],
        before: Mapping[str, Mapping[str, MemberRecord]],
    ) -> None:
        """Count the times of writers that the batch removes, perhaps after the timeouts."""
        for key, member in members:
            was = before[key].get(member.writer)
            stream = self.streams[key]
            if member.excluded != "timed_out" or (was is not None and was.excluded is not None):
                continue
            since = member.noted_served_ms
            if member.times and len(stream.record.settings.domains) == 1:
                overtaken = stream.overtaken(member.writer, _time(member))
                since = max(since, member.changed_served_ms if overtaken is None else overtaken)
            silent = member.changed_served_ms - since
            self.check(laws.exclusions_wait_for_the_timeout, silent, stream.timeout_ms)

    def _mark(
        self,
        stream: Stream,
        before: Mapping[str, MemberRecord],
        were_out: frozenset[str],
        mark: Mark,
    ) -> None:
        """Judge a mark by the members before and after its batch."""
        name = stream.record.name
        cut = mark.cut.offsets
        lower = mark.lower
        wire = {"seq": mark.seq, "cut": position_to_wire(cut)}
        before_it = [mark.seq - 1] * len(stream.scalings)
        self.check(laws.cuts_are_complete, [wire], stream.scalings, before_it)
        removed_changes = {
            w: _last_change(was) for w, was in before.items() if was.excluded == "removed"
        }
        upper: float = max(lower, stream.last.upper) if stream.last else lower
        for was in before.values():
            if was.writer not in removed_changes:
                upper = max(upper, _time(was))
        for member in stream.members.values():
            if removed_changes.get(member.writer) != _last_change(member):
                upper = max(upper, _time(member))
        if not mark.final:
            self.check(laws.uppers_are_noted, mark.upper, upper)
        for writer in sorted(stream.owed):
            member = stream.members[writer]
            if removed_changes.get(writer) == _last_change(member) or _time(member) < lower:
                self.check(laws.exclusions_are_named, writer, mark.excluded)
                stream.owed.discard(writer)
        stream.owed.difference_update(mark.excluded)
        for writer, was in before.items():
            record = stream.members[writer]
            was_out = writer in were_out
            is_out = writer in stream.out
            was_counted = was.state == record.state == "live" and not was_out and not is_out
            has_stayed = was_counted and was.changed_served_ms == record.changed_served_ms
            if has_stayed and not mark.final:
                self.check(laws.members_reach_the_lower, _time(record), lower)
                first = next((n for n in self._sent[name, writer] if _find_time(n) >= lower), None)
                if first is not None:
                    self.check(laws.cuts_reach_the_notes, cut, first.position)
            elif _has_left(was) and was.sequence == record.sequence and _time(was) < lower:
                self.check(laws.cuts_reach_the_notes, cut, was.position)

    def judge_answer(self, name: str, note: Note, answer: Accepted | Refused) -> None:
        """Judge the answer to a note, which a writer that keeps its promises may be given."""
        if isinstance(answer, Refused):
            self.broke(laws.ANSWERS, name, note, answer)
            return
        stream = next(stream for stream in self.streams.values() if stream.record.name == name)
        member = stream.members.get(note.writer)
        self.check(laws.notes_are_committed, note.sequence or 0, member)
        if stream.record.settings.returning_writer == "exclude" and note.time is not None:
            is_late = answer.lower is not None and note.time < answer.lower
            is_told = answer.exclusion is not None
            self.check(laws.late_writers_are_told, note, answer, told=is_told, late=is_late)


def _has_left(record: MemberRecord) -> bool:
    return record.state != "live" or record.excluded is not None


def _last_change(record: MemberRecord) -> tuple[object, ...]:
    """Return facts that a removal changes, and each note after it, even one sent twice."""
    return record.excluded, record.changed_served_ms, record.sequence


def _time(record: MemberRecord) -> float:
    return record.times.get(DOMAIN, float("-inf"))


def _find_time(note: Note) -> float:
    return float("-inf") if note.time is None else note.time
