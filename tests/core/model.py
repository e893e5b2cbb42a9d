"""The aggregation rules, implemented slowly and obviously.

Every note is kept, and every answer reads all of them; only plain values are shared with the code
under test.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from noted_time import Mark, State, StreamCut
from noted_time.values import Exclusion, ExclusionReason, Note, ScaleEvent, StreamSettings

Position = dict[int, int]
NEVER = -(2**63) - 1
"""Minus infinity: before every int64."""


@dataclass(frozen=True)
class Noted:
    """An accepted note of a writer; `position` is everything noted by then."""

    domain: str
    time: int | None
    max_times: dict[str, int]
    position: Position
    at: int = 0


@dataclass
class Writer:
    """All notes of a writer; `began` has the time when it began to hold each domain.

    `overtaken` has since when a domain has a later time than its own, and `narrowed` the domains
    that it left and is missing in. Notes before `begun_at` do
    not count for times, and all rows written by then (`floor`) are in every later cut. `former` has
    the times that a removal ended, and `resumed` those that count again.
    """

    name: str
    state: State = "finished"
    excluded: ExclusionReason | None = None
    noted_at: int = 0
    timeout_ms: int | None = None
    suspension_ends_served_ms: int = 0
    domains: frozenset[str] | None = None
    sequence: int = 0
    log: list[Noted] = field(default_factory=list)
    returned_below: set[str] = field(default_factory=set)
    began: dict[str, int] = field(default_factory=dict)
    late_since: dict[str, int] = field(default_factory=dict)
    overtaken: dict[str, int] = field(default_factory=dict)
    begun_at: dict[str, int] = field(default_factory=dict)
    floor: dict[str, Position] = field(default_factory=dict)
    unrecorded: set[str] = field(default_factory=set)
    narrowed: set[str] = field(default_factory=set)
    reported: dict[str, Exclusion] = field(default_factory=dict)
    undeclared: set[str] = field(default_factory=set)
    former: dict[str, int] = field(default_factory=dict)
    resumed: dict[str, int] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        return self.log[-1].position if self.log else {}

    def list_notes(self, domain: str) -> list[Noted]:
        """Return the notes of a domain since the writer last began there."""
        since = self.begun_at.get(domain, 0)
        return [note for note in self.log[since:] if note.domain == domain]

    def time(self, domain: str) -> int:
        largest_time = self.resumed.get(domain, NEVER)
        for note in self.list_notes(domain):
            if note.time is not None:
                largest_time = max(largest_time, note.time)
        return largest_time

    def vouches(self, domain: str) -> bool:
        return self.state == "live" and not self.excluded and self.is_of(domain)

    def is_of(self, domain: str) -> bool:
        return self.domains is None or domain in self.domains

    def is_missed_at(self, domain: str, lower: int) -> bool:
        """Whether a mark at that lower advances although the writer should vouch for more."""
        is_out = bool(self.excluded) or domain in self.returned_below
        is_passed = self.excluded == "removed" or self.time(domain) < lower
        return (domain in self.narrowed or (self.is_of(domain) and is_out)) and is_passed

    def counts(self, domain: str) -> bool:
        return self.vouches(domain) and domain not in self.returned_below

    def list_event_times(self, domain: str) -> list[int]:
        since = self.begun_at.get(domain, 0)
        return [n.max_times[domain] for n in self.log[since:] if domain in n.max_times]

    def highest_event(self, domain: str) -> int:
        """Return the largest declared event time, or the noted time if none was declared."""
        return max(self.list_event_times(domain), default=self.time(domain))

    def is_undeclared(self, domain: str) -> bool:
        """Whether it wrote rows and has not declared their largest time since."""
        is_unsaid = not self.list_event_times(domain) and self.time(domain) != NEVER
        return domain in self.undeclared or is_unsaid

    def begin_again(self, domain: str) -> None:
        self.begun_at[domain] = len(self.log)
        self.floor[domain] = self.position
        self.returned_below.discard(domain)
        self.resumed.pop(domain, None)
        self.end_narrowing(domain)
        self.began.pop(domain, None)

    def end_narrowing(self, domain: str) -> None:
        self.narrowed.discard(domain)
        self.unrecorded.discard(domain)

    def position_for(self, domain: str, lower: int) -> Position:
        """Return the position of its first note with time >= lower.

        Idle or finished is a note at +infinity, at the last position.
        """
        floor = self.floor.get(domain, {})
        for note in self.list_notes(domain):
            if note.time is not None and note.time >= lower:
                return join(floor, note.position)
        return floor if self.counts(domain) else self.position


def join(first: Position, other: Position) -> Position:
    return {s: max(first.get(s, 0), other.get(s, 0)) for s in {*first, *other}}


def keep_starts(starts: dict[str, int], domains: Iterable[str], now: int) -> dict[str, int]:
    """Return the start of each of the domains, which is `now` for a new one."""
    return {domain: starts.get(domain, now) for domain in domains}


class Model:
    """One stream by rules 1 to 8, given the same input as an `Aggregator`."""

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings
        self.writers: dict[str, Writer] = {}
        self.marks: dict[str, list[Mark]] = {domain: [] for domain in settings.domains}
        self.missing: dict[str, dict[str, int]] = {domain: {} for domain in settings.domains}
        self.went_without: dict[str, list[dict[str, int]]] = {}
        self.upper: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self.unbounded: set[str] = set()
        self.scales: list[ScaleEvent] = []

    def complete(self, position: Position) -> Position:
        """Return the position with all predecessors of its segments at their final offsets."""
        whole = dict(position)
        for event in reversed(self.scales):
            for segment, predecessors in event.created.items():
                if segment in whole:
                    for predecessor in predecessors:
                        whole[predecessor] = event.sealed[predecessor]
        return whole

    def final(self) -> Position:
        final_offsets: Position = {}
        for event in self.scales:
            final_offsets |= event.sealed
        return final_offsets

    def scale(self, event: ScaleEvent) -> bool:
        """Apply the event unless it is wrong, and return whether it was applied."""
        positions = [self.complete(writer.position) for writer in self.writers.values()]
        if not self._is_right(event, positions):
            return False
        self.scales.append(event)
        for writer, earlier_offsets in zip(self.writers.values(), positions, strict=True):
            later_offsets = self.complete(writer.position)
            if any(later_offsets[s] > offset for s, offset in earlier_offsets.items()):
                writer.undeclared |= self.marks.keys()
        return True

    def _is_right(self, event: ScaleEvent, positions: list[Position]) -> bool:
        """Whether it seals open segments, not below a position, and creates new ones of them."""
        final = self.final()
        created_segments: set[int] = set()
        for past_event in self.scales:
            created_segments |= past_event.created.keys()
        known_segments = created_segments.union(*positions)
        for segment, offset in event.sealed.items():
            if segment not in known_segments or segment in final:
                return False
            if any(position.get(segment, 0) > offset for position in positions):
                return False
        if event.created.keys() & (created_segments | final.keys() | event.sealed.keys()):
            return False
        predecessors = set().union(*event.created.values())
        return predecessors <= event.sealed.keys()

    def note(self, note: Note, now: int) -> tuple[str, object]:
        """Answer a note: ("accepted", the lower) or (the refusal, the stored value)."""
        domain = note.domain or "default"
        refusal = self._refusal(note, domain)
        if refusal is not None:
            return refusal
        writer = self.writers.setdefault(note.writer, Writer(note.writer))
        returns = note.state == "live" and (writer.state != "live" or bool(writer.excluded))
        was_removed = writer.excluded == "removed"
        if was_removed:
            for each in self.marks:
                writer.begin_again(each)
                writer.undeclared |= {each} if self.has_written(writer) else set()
        if note.time is not None:
            self._resume(writer, domain, note.time)
        before = writer.time(domain)
        is_widened = self._take_terms(writer, note)
        max_times = dict(note.max_times or {})
        if note.max_time is not None:
            max_times[domain] = max(note.max_time, max_times.get(domain, note.max_time))
        if self._wrote(writer, note):
            writer.undeclared |= self.marks.keys()
        writer.undeclared -= max_times.keys()
        position = join(writer.position, dict(note.position))
        writer.log.append(Noted(domain, note.time, max_times, position, now))
        writer.state = note.state
        writer.excluded = None
        writer.noted_at = now
        writer.sequence = max(writer.sequence, note.sequence or 0)
        if returns or is_widened:
            self._exclude_late(writer, now)
        self.settle(now)
        for each in self.marks if was_removed else ():
            self._drop_removed_upper(each)
        if not returns and max(before, self.lower(domain)) < writer.time(domain):
            writer.reported.pop(domain, None)
        if note.state != "live":
            writer.reported.clear()
        if note.state == "finished":
            writer.narrowed.clear()
        writer.reported = {k: time for k, time in writer.reported.items() if writer.is_of(k)}
        return "accepted", self.marks[domain][-1].lower if self.marks[domain] else None

    def _resume(self, writer: Writer, domain: str, time: int) -> None:
        """Let the times before a removal count again, if the next one is not below them."""
        former = writer.former.pop(domain, None)
        if former is not None and time >= former and self.lower(domain) <= former:
            writer.resumed[domain] = former

    def has_written(self, writer: Writer) -> bool:
        """Whether any row lies below its position."""
        return any(self.complete(writer.position).values())

    def _wrote(self, writer: Writer, note: Note) -> bool:
        """Whether its position rises by more than segments that it only implies to be complete."""
        stored_offsets = self.complete(writer.position)
        noted_offsets = self.complete(dict(note.position))
        for segment in stored_offsets.keys() | note.position.keys():
            if noted_offsets.get(segment, 0) > max(stored_offsets.get(segment, 0), 0):
                return True
        return False

    def _take_terms(self, writer: Writer, note: Note) -> bool:
        """Set the writer's timeout and domains, and return whether it vouches for more."""
        if note.timeout_ms != 0:
            writer.timeout_ms = note.timeout_ms
        if note.domains is None:
            return False
        before = writer.domains
        after = frozenset(note.domains)
        writer.narrowed |= self._leave(writer, after)
        writer.domains = after
        new_domains = after - before if before is not None else frozenset()
        for domain in new_domains:
            largest = max(writer.list_event_times(domain), default=None)
            writer.begin_again(domain)
            if largest is not None:
                writer.log.append(Noted(domain, None, {domain: largest}, writer.position))
        writer.returned_below &= after
        return bool(new_domains)

    def _leave(self, writer: Writer, after: frozenset[str]) -> set[str]:
        """Return the domains with marks that a member leaves, and let the next marks say so."""
        has_vouched = writer.log and writer.state != "finished" and writer.excluded != "removed"
        left_domains = set()
        for domain, marks in self.marks.items():
            is_left = marks and writer.is_of(domain) and domain not in after
            if is_left and (has_vouched or writer.name in self.missing[domain]):
                left_domains.add(domain)
        writer.unrecorded |= left_domains
        return left_domains

    def _exclude_late(self, writer: Writer, now: int) -> None:
        """Exclude a writer that came back below the last lower, if the stream says so."""
        if self.settings.returning_writer != "exclude":
            return
        for domain in self.marks.keys() - writer.returned_below:
            if writer.vouches(domain) and writer.time(domain) < self.lower(domain):
                writer.unrecorded.add(domain)
                writer.reported.setdefault(domain, Exclusion("returned_below", now))
                writer.returned_below.add(domain)

    def _refusal(self, note: Note, domain: str) -> tuple[str, object] | None:
        writer = self.writers.get(note.writer, Writer(note.writer))
        if note.sequence is not None and note.sequence < writer.sequence:
            return "superseded", writer.sequence
        if not {domain, *(note.domains or ()), *(note.max_times or ())} <= self.marks.keys():
            return "unknown_domain", None
        if note.writer not in self.writers and note.state != "live":
            return "unknown_writer", None
        declared_domains = writer.domains if note.domains is None else frozenset(note.domains)
        if declared_domains is not None and domain not in declared_domains:
            return "not_vouched", set(declared_domains)
        passed_offsets = self._list_passed_ends(note)
        if passed_offsets:
            return "invalid_position", passed_offsets
        last = NEVER if writer.excluded == "removed" else writer.time(domain)
        if note.time is not None and note.time < last:
            return "invalid_time", last
        higher_offsets = self._list_higher_offsets(writer, note)
        return ("invalid_position", higher_offsets) if higher_offsets else None

    def _list_passed_ends(self, note: Note) -> Position:
        """Return the ends of the sealed segments beyond which the note is."""
        passed_ends = {}
        for segment, end in self.final().items():
            if note.position.get(segment, end) > end:
                passed_ends[segment] = end
        return passed_ends

    def _list_higher_offsets(self, writer: Writer, note: Note) -> Position:
        """Return the writer's offsets above those of the note."""
        stored_offsets = self.complete(writer.position)
        higher_offsets = {}
        for segment, offset in self.complete(dict(note.position)).items():
            if offset < stored_offsets.get(segment, 0):
                higher_offsets[segment] = stored_offsets[segment]
        return higher_offsets

    def lower(self, domain: str) -> int:
        return self.marks[domain][-1].lower if self.marks[domain] else NEVER

    def _behind(self, writer: Writer, domain: str) -> bool:
        return writer.time(domain) <= self.lower(domain)

    def settle(self, now: int) -> None:
        """Update the state of every writer and domain at `now`."""
        for domain in self.marks:
            earlier_peak = self.peak.get(domain, NEVER)
            self.peak[domain] = max(earlier_peak, self._highest(domain), self.lower(domain))
        for writer in self.writers.values():
            if writer.state != "live":
                writer.returned_below.clear()
            writer.returned_below = {k for k in writer.returned_below if self._behind(writer, k)}
            if not writer.excluded:
                writer.unrecorded &= writer.returned_below | writer.narrowed
            held_domains = {k for k in self.marks if writer.counts(k) and self._behind(writer, k)}
            writer.began = keep_starts(writer.began, held_domains, now)
            late_domains = {k for k in writer.returned_below if writer.vouches(k)}
            writer.late_since = keep_starts(writer.late_since, late_domains, now)
            passed_domains = {k for k in self.marks if writer.time(k) < self.peak.get(k, NEVER)}
            writer.overtaken = keep_starts(writer.overtaken, passed_domains, now)
        for domain in self.marks:
            self.upper[domain] = max(self.upper.get(domain, NEVER), self.find_largest(domain))

    def list_not_removed(self) -> list[Writer]:
        return [writer for writer in self.writers.values() if writer.excluded != "removed"]

    def list_counted(self, domain: str) -> list[Writer]:
        return [writer for writer in self.writers.values() if writer.counts(domain)]

    def find_largest(self, domain: str) -> int:
        largest_time = NEVER
        for writer in self.list_not_removed():
            largest_time = max(largest_time, writer.highest_event(domain))
        return largest_time

    def remove(self, writer: Writer, now: int) -> None:
        """Exclude the writer as an operator does; its times no longer count."""
        if writer.excluded != "removed":
            writer.former = {}
            for domain in self.marks:
                if writer.counts(domain) and writer.time(domain) != NEVER:
                    writer.former[domain] = writer.time(domain)
            self.leave_out(writer, now, "removed")
            writer.suspension_ends_served_ms = 0
            self.peak.clear()
            for domain in self.marks:
                self._forget_overtaking(writer, domain)
            self.settle(now)
            for domain in self.marks:
                if domain not in writer.unrecorded:
                    self._drop_removed_upper(domain)

    def end_removals(self) -> None:
        """Let the last marks name the removed writers, as a seal does."""
        for writer in self.writers.values():
            for domain in writer.unrecorded if writer.excluded == "removed" else ():
                self._drop_removed_upper(domain)

    def _drop_removed_upper(self, domain: str) -> None:
        largest = max(self.lower(domain), self.find_largest(domain))
        if largest < self.upper[domain]:
            self.upper[domain] = largest
            self.unbounded.add(domain)

    def _forget_overtaking(self, removed_writer: Writer, domain: str) -> None:
        """Let the writers that it may have overtaken count from the last note of the leader."""
        highest = self._highest(domain)
        writers = self.list_not_removed()
        leader_moments = [writer.noted_at for writer in writers if writer.time(domain) == highest]
        for writer in writers:
            if writer.time(domain) < min(removed_writer.time(domain), highest):
                writer.overtaken[domain] = min(leader_moments, default=0)

    def silent_served_ms(self, writer: Writer, now: int) -> int:
        """Return the time since which it is silent, by all notes ever."""
        moments = []
        for domain in self.marks:
            if writer.vouches(domain):
                began_served_ms = writer.began.get(domain, writer.late_since.get(domain, now))
                for note in self._list_later_notes(writer, domain):
                    began_served_ms = min(began_served_ms, note.at)
                moments.append(max(writer.noted_at, began_served_ms))
        return min(moments)

    def _list_later_notes(self, writer: Writer, domain: str) -> Iterator[Noted]:
        """Yield the other writers' notes of times above the writer's own."""
        time = writer.time(domain)
        for other in self.list_not_removed():
            if other is not writer:
                for note in other.list_notes(domain):
                    if note.time is not None and note.time > time:
                        yield note

    def expect(self, names: tuple[str, ...], now: int) -> None:
        for name in names:
            if name not in self.writers:
                self.writers[name] = Writer(name, "live", noted_at=now)
                self._exclude_late(self.writers[name], now)
        self.settle(now)

    def due(self, writer: Writer) -> int | None:
        """Return when the writer is excluded if it stays silent, `None` if it holds nothing."""
        began = (*writer.began.items(), *writer.late_since.items())
        return min((self._out_at(writer, *start) for start in began), default=None)

    def _out_at(self, writer: Writer, domain: str, began: int) -> int:
        """Return when its silence has lasted for its timeout, if it began to hold at `began`."""
        timeout = writer.timeout_ms or self.settings.writer_timeout_ms
        silent_served_ms = max(writer.noted_at, min(began, writer.overtaken.get(domain, began)))
        return max(silent_served_ms + timeout, writer.suspension_ends_served_ms)

    def leave_out(self, writer: Writer, now: int, reason: ExclusionReason = "timed_out") -> None:
        for domain in self.marks:
            if writer.is_of(domain):
                writer.reported[domain] = Exclusion(reason, now)
                if writer.vouches(domain) or writer.name in self.missing[domain]:
                    writer.unrecorded.add(domain)
        writer.excluded = reason
        writer.returned_below.clear()
        if reason == "removed":
            writer.unrecorded -= writer.narrowed
            writer.narrowed.clear()
        self.settle(now)

    def expire(self, now: int) -> set[str]:
        """Exclude the writers that were silent for the writer timeout; return their names.

        First the holders, then the next holders, until one is left that was not silent.
        """
        out: set[str] = set()
        while due := self._due_holders(now) | self._due_next(now):
            for name in due:
                writer = self.writers[name]
                timeout = writer.timeout_ms or self.settings.writer_timeout_ms
                if len(self.marks) == 1:  # a domain that is dropped and added again begins anew
                    assert now - self.silent_served_ms(writer, now) >= timeout, name
            for name in due:
                self.leave_out(self.writers[name], now)
            out |= due
        return out

    def _due_holders(self, now: int) -> set[str]:
        due_names = set()
        for name, writer in self.writers.items():
            due = self.due(writer)
            if due is not None and due <= now:
                due_names.add(name)
        return due_names

    def _due_next(self, now: int) -> set[str]:
        """Return the members at the least time of a domain without holders, if all were silent."""
        due_names: set[str] = set()
        for domain in self.marks:
            writers = self.list_counted(domain)
            if not any(domain in writer.began for writer in writers):
                min_time = min((writer.time(domain) for writer in writers), default=NEVER)
                first_writers = [w for w in writers if w.time(domain) == min_time]
                if all(self._out_at(writer, domain, now) <= now for writer in first_writers):
                    due_names |= {writer.name for writer in first_writers}
        return due_names

    def waiting_for(self, domain: str) -> set[str]:
        """Return the members that hold the domain, or keep its highest time from a flush."""
        holders = {name for name, writer in self.writers.items() if domain in writer.began}
        if holders or self.list_counted(domain) or self._highest(domain) <= self.lower(domain):
            return holders
        return {name for name, writer in self.writers.items() if domain in writer.late_since}

    def _highest(self, domain: str) -> int:
        return max((writer.time(domain) for writer in self.list_not_removed()), default=NEVER)

    def next_lower(self, domain: str) -> int | None:
        """Return the next lower, or `None` if time cannot advance."""
        counted_writers = self.list_counted(domain)
        if counted_writers:
            candidate = min(writer.time(domain) for writer in counted_writers)
        elif any(domain in writer.late_since for writer in self.writers.values()):
            return None
        else:
            candidate = self._highest(domain)
        return candidate if candidate > self.lower(domain) else None

    def advance(self, domain: str, now: int) -> Mark | None:
        lower = self.next_lower(domain)
        if lower is None:
            return None
        out = self._went_on_without(domain, lower)
        cut = self.cut(domain, lower)
        self._miss(domain, lower, out)
        for name in out:
            writer = self.writers[name]
            if writer.excluded == "removed":
                self._drop_removed_upper(domain)
            position = self.complete(writer.position)
            has_rows = all(cut.get(s, 0) >= offset for s, offset in position.items())
            if lower > writer.former.get(domain, NEVER) or not has_rows:
                writer.former.pop(domain, None)
        mark = Mark(
            seq=len(self.marks[domain]) + 1,
            lower=lower,
            upper=self.upper[domain],
            cut=StreamCut(cut),
            excluded=tuple(sorted(out)),
            upper_is_bound=domain not in self.unbounded
            and not any(writer.is_undeclared(domain) for writer in self.writers.values()),
        )
        self.marks[domain].append(mark)
        self.settle(now)
        return mark

    def _miss(self, domain: str, lower: int, missing_names: set[str]) -> None:
        """Remember the writers a mark advances without, each with the time it is missing from.

        A removed one is missing only at the mark that names it, from its time or the last lower.
        """
        missing = {}
        for name, start in self.missing[domain].items():
            if self.writers[name].is_missed_at(domain, lower):
                missing[name] = start
        for name in missing_names:
            writer = self.writers[name]
            start = writer.time(domain)
            if start == NEVER and writer.log:
                start = self.lower(domain)
            if writer.excluded == "removed":
                start = min(start, self.lower(domain))
            missing.setdefault(name, start)
        self.went_without.setdefault(domain, []).append(missing)
        self.missing[domain] = dict(missing)
        for name in missing_names:
            if self.writers[name].excluded == "removed":
                del self.missing[domain][name]

    def missing_in(self, domain: str, start: int, end: int) -> set[str]:
        """Return the writers missing from a mark while time passed the window."""
        passed_marks = zip(self.marks[domain], self.went_without.get(domain, ()), strict=True)
        missing_names = set()
        for mark, missing in passed_marks:
            if mark.lower > start:
                missing_names |= {name for name, since in missing.items() if since < end}
        return missing_names

    def cut(self, domain: str, lower: int) -> Position:
        """Return the tight cut: all positions for the lower and the last mark's cut."""
        last = self.marks[domain][-1].cut.offsets if self.marks[domain] else {}
        cut = self.complete(dict(last))
        for writer in self.writers.values():
            cut = join(cut, self.complete(writer.position_for(domain, lower)))
        return cut

    def _went_on_without(self, domain: str, lower: int) -> set[str]:
        missing_names = set()
        for writer in self.writers.values():
            is_passed = writer.excluded == "removed" or writer.time(domain) < lower
            if domain in writer.unrecorded and is_passed:
                writer.unrecorded.discard(domain)
                missing_names.add(writer.name)
        return missing_names

    def reconfigure(self, settings: StreamSettings, now: int) -> None:
        """Take changed settings; exclude or restore a writer below the last lower accordingly."""
        self.settings = settings
        for domain in settings.domains:
            if domain not in self.marks:
                self.marks[domain] = []
                for writer in self.writers.values():
                    writer.undeclared |= {domain} if self.has_written(writer) else set()
                    if writer.excluded == "timed_out" and writer.is_of(domain):
                        writer.unrecorded.add(domain)
            self.missing.setdefault(domain, {})
        for writer in self.writers.values():
            if settings.returning_writer == "wait":
                writer.returned_below.clear()
            self._exclude_late(writer, now)
        self.settle(now)
