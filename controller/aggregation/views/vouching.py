"""Finds the members in memory that vouch for the time of a mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from controller.aggregation.views.suspect_notes import MEMBERS_EXAMINED
from controller.aggregation.views.view import View
from noted_time.reading import UNKNOWN_STATUS, CountsByWriter, LateReports, Spells
from noted_time.rules import Member, Track
from noted_time.values import MAX_INT64, MIN_INT64, Mark, VouchedBy, WaitForWriters, WriterStatus
from noted_time.verdict import Latecomer
from noted_time.verdict.words import suggest_writer

COUNTED_AT_ONCE = 2000  # examining them takes about 5 ms


class Vouching:
    """The members that vouch for a domain, and the writers that are expected to."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._stream = view.stream
        self.stream = view.stream.record.name
        self.history = view.history
        self.coverage = view.stream.coverage(view.domain)
        self.logs = view.stream.record.logs
        self.are_unix_ms = view.stream.settings.are_unix_ms
        self.domain = view.domain
        self._number = self._stream.aggregator.domains.numbers[self.domain]

    @property
    def members(self) -> list[Member]:
        return list(self._stream.aggregator.domains.members.values())

    @property
    def expected(self) -> list[str]:
        members = self._stream.aggregator.domains.members
        names = self._stream.settings.expected_writers
        return [name for name in names if name not in members or self._is_counted(members[name])]

    def _is_counted(self, member: Member) -> bool:
        """Return whether the member vouches for the domain, or did so and dropped it."""
        vouches = member.vouches_for(self.domain)
        return vouches or member.track(self._number).is_narrowed

    @property
    def forgotten_seq(self) -> int:
        """The last mark when a member was last forgotten, or 0."""
        forgotten_lower = self._find_forgotten_lower()
        last_mark = self.history.last
        if forgotten_lower is None or last_mark is None:
            return 0
        return self.history.complete_to(min(forgotten_lower, last_mark.lower)).seq

    def _find_forgotten_lower(self) -> int | None:
        return self._stream.aggregator.domains[self.domain].roster.forgotten_lower

    def find_vouching(self, mark: Mark) -> VouchedBy | None:
        if len(self.members) > COUNTED_AT_ONCE:
            return None
        *_, results = self.tally([(mark.seq, mark.lower)])
        return results[0]

    def tally(self, marks: Sequence[tuple[int, int]]) -> Iterator[list[VouchedBy]]:
        """Yield who vouches at each of several marks, given by rising seq and time.

        After each member it yields an empty list, so that the caller can pause. The last list has
        the results.
        """
        counts = CountsByWriter(marks, self.expected)
        for member in self.members:
            # the member may be forgotten after a pause
            if member.writer in self._stream.aggregator and self._is_counted(member):
                counts.add(member.writer, *self._find_writer_status(member))
            yield []
        forgotten_lower = self._find_forgotten_lower()
        are_names_known = forgotten_lower is None or marks[0][1] > forgotten_lower
        yield counts.results(names_known=are_names_known)

    def _find_writer_status(self, member: Member) -> tuple[Spells, WriterStatus]:
        track = member.track(self._number)
        status = find_writer_status(member, track)
        if track.membership.from_time is None:  # almost all
            return track.membership.spells, status
        roster = self._stream.aggregator.domains[self.domain].roster
        return roster.list_spells(track, self.forgotten_seq), status

    def find_writer_status(self, writer: str) -> tuple[Spells, WriterStatus]:
        members = self._stream.aggregator.domains.members
        if writer not in members:
            return UNKNOWN_STATUS
        return self._find_writer_status(members[writer])

    def find_reached_seq(self, position: Mapping[int, int]) -> int:
        return self._stream.window(position, self.domain).lower_seq or 0

    def find_unknown_segments(self, position: Mapping[int, int]) -> list[int]:
        last_mark = self.history.last
        unknown_segments = {segment for segment, offset in position.items() if offset}
        unknown_segments.difference_update(last_mark.cut.offsets if last_mark else ())
        for event in self._stream.scale_events:
            unknown_segments.difference_update(event.sealed, event.created)
        if unknown_segments:
            for member in self.members:
                unknown_segments.difference_update(member.position)
        return sorted(unknown_segments)

    def list_holding_back(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        view = self._view
        decision = self._stream.aggregator.decide(self.domain, view.served_ms)
        if not isinstance(decision, WaitForWriters):
            return [], 0
        now = view.served_ms + self._stream.unix_shift(view.now)
        longest = decision.waiting_for[:limit]
        return [
            (waiting.writer, now - waiting.held_back_ms) for waiting in longest
        ], decision.holding_back_count

    def suggest(self, writer: str) -> str:
        aggregator = self._stream.aggregator
        settings = self._stream.settings
        names = [*islice(aggregator.writers(), MEMBERS_EXAMINED), *settings.expected_writers]
        forgets_after_ms = settings.writer_retention_ms if aggregator.forgotten_lowers else None
        return suggest_writer(self.stream, writer, names, forgets_after_ms)

    def list_latecomers(self) -> Sequence[Latecomer]:
        return self._latecomers

    @cached_property
    def _latecomers(self) -> Sequence[Latecomer]:
        late_reports = self._stream.late_reports[self.domain]
        return [*find_latecomers(self.members, self._number, late_reports)]


def find_latecomers(
    members: Iterable[Member], domain_number: int, late_reports: LateReports
) -> Iterator[Latecomer]:
    """Yield members that may have older rows than the first mark that counts them.

    They reported late rows, noted below the lower, or wrote rows without a time.
    """
    late_from = dict[str, int]()
    for report in late_reports:
        late_from[report.writer] = min(report.first, late_from.get(report.writer, report.first))
    for member in members:
        track = member.track(domain_number)
        membership = track.membership
        has_no_time = track.noted is None and member.has_written
        from_time = late_from.get(member.writer)
        if has_no_time or membership.first_time is not None:
            from_time = MIN_INT64
        if from_time is None:
            continue  # almost all, in 0.2 µs each
        if track.vouches_here:
            seqs = (spell.from_seq for spell in membership.spells)
            yield Latecomer(member.writer, from_time, min(seqs, default=MAX_INT64))


def find_writer_status(member: Member, track: Track) -> WriterStatus:
    """Return why marks do not count a member, if they do not."""
    if track.is_narrowed:
        return "narrowed"
    if member.exclusion:
        return "excluded"
    return "returned_later" if member.state == "live" else member.state
