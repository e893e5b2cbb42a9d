"""Finds the members in memory that vouch for the time of a mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from controller.aggregation.stream import StreamState
from noted_time import Mark
from noted_time.reading import UNKNOWN_STANDING, VouchingTally, find_required_seq
from noted_time.rules import Member
from noted_time.values import NotVouching, OpenStream, Spell, VouchedBy, WriterStanding

COUNTED_AT_ONCE = 2000  # examining them takes about 5 ms


class Vouching:
    """The members that vouch for a domain, and the writers that are expected to."""

    def __init__(self, stream: StreamState, domain: str | None) -> None:
        self._stream = stream
        self.history = stream.history(domain)
        self._domain = stream.settings.domain_or_default(domain)
        self._number = stream.aggregator.domains.numbers[self._domain]

    def check_expects(self) -> None:
        if not self.expected:
            raise OpenStream(self._stream.record.name)

    @property
    def members(self) -> list[Member]:
        return list(self._stream.aggregator.domains.members.values())

    @property
    def expected(self) -> list[str]:
        members = self._stream.aggregator.domains.members
        names = self._stream.settings.expected_writers
        return [n for n in names if n not in members or self._is_counted(members[n])]

    def _is_counted(self, member: Member) -> bool:
        """Return whether the member vouches for the domain, or did so and dropped it."""
        vouches = member.vouches_for(self._domain)
        return vouches or member.track(self._number).narrowed_at is not None

    @property
    def forgotten_seq(self) -> int:
        """The last mark when a member was last forgotten, or 0."""
        lower, last = self._find_forgotten_lower(), self.history.last
        if lower is None or last is None:
            return 0
        return self.history.complete_to(min(lower, last.lower)).seq

    def _find_forgotten_lower(self) -> int | None:
        return self._stream.aggregator.domains[self._domain].roster.forgotten_lower

    def find_vouching(self, mark: Mark) -> VouchedBy | None:
        if len(self.members) > COUNTED_AT_ONCE:
            return None
        *_, results = self.tally([(mark.seq, mark.lower)])
        return results[0]

    def tally(self, marks: Sequence[tuple[int, int]]) -> Iterator[list[VouchedBy]]:
        """Yield who vouches at each of several marks, given by rising seq and time.

        An empty list lets the caller pause; the results come last.
        """
        tally = VouchingTally(marks, self.expected)
        for member in self.members:
            # the member may be forgotten after a pause
            if member.writer in self._stream.aggregator and self._is_counted(member):
                tally.add(member.writer, *self._find_standing(member))
            yield []
        forgotten_lower = self._find_forgotten_lower()
        are_names_known = forgotten_lower is None or marks[0][1] > forgotten_lower
        yield tally.results(names_known=are_names_known)

    def _find_standing(self, member: Member) -> tuple[tuple[Spell, ...], WriterStanding]:
        track = member.track(self._number)
        standing: WriterStanding = "excluded" if member.exclusion else member.state
        standing = standing if track.narrowed_at is None else "narrowed"
        if track.rows_from is None:  # almost all
            return track.spells, standing
        roster = self._stream.aggregator.domains[self._domain].roster
        return roster.list_spells(track, self.forgotten_seq), standing

    def find_required_seq(
        self, first: int, time: int, writers: Iterable[str], *, every: bool, known: bool
    ) -> tuple[int, list[NotVouching]]:
        """Return the first mark that meets the requirements, and the writers that never vouch.

        `known` allows no missing writer and no latecomer, and `every` also needs all expected ones.
        A forgotten writer may have been either, up to the last mark at that moment.
        """
        if every or known:
            first = max(first, self.forgotten_seq)
        members = self._stream.aggregator.domains.members
        required: dict[str, tuple[tuple[Spell, ...], WriterStanding]] = {
            name: self._find_standing(members[name]) if name in members else UNKNOWN_STANDING
            for name in (*writers, *(self.expected if every else ()))
        }
        if every or known:
            latecomers = self._find_latecomers(first, time)
            required |= {each.writer: self._find_standing(each) for each in latecomers}
        missing = self._stream.missing[self._domain] if every or known else None
        return find_required_seq(first, self.history.last_seq, time, required, missing)

    def _find_latecomers(self, first: int, time: int) -> Iterator[Member]:
        """Yield members that mark `first` does not count, and that may have older rows.

        They reported late rows, noted below the lower, or wrote rows without a time.
        """
        late = {each.writer for each in self._stream.late[self._domain] if each.first < time}
        for member in self.members:
            track = member.track(self._number)
            has_no_time = track.noted is None and member.has_written
            if not (has_no_time or track.first_time is not None or member.writer in late):
                continue  # almost all, in 0.2 µs each
            if track.vouches_here and all(each.from_seq > first for each in track.spells):
                yield member
