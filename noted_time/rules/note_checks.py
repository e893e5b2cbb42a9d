"""Checks whether a note is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noted_time.rules.member import BEFORE_ALL_TIME, Member
from noted_time.rules.members import Domains
from noted_time.rules.segments import NOT_NAMED
from noted_time.values import (
    LEAST_TIME,
    LEAST_UNIX_MS,
    NO_TERMS,
    NOTED_SECONDS,
    SEGMENTS_PER_POSITION,
    Beyond,
    Note,
    Refused,
    Succession,
    find_behind,
    find_gained,
)

DOMAINS_NAMED = 10

SECONDS_START = NOTED_SECONDS.start
SECONDS_STOP = NOTED_SECONDS.stop

EMPTY_POSITION: Mapping[int, int] = MappingProxyType({})


class NoteChecks:
    """The state against which the notes of one stream are checked."""

    __slots__ = ("_domains", "_succession")

    def __init__(self, domains: Domains, succession: Succession) -> None:
        self._domains = domains
        self._succession = succession

    def check(
        self, note: Note, member: Member | None, largest_time: int
    ) -> Refused | tuple[int, Mapping[int, int]]:
        """Refuse a note, or return its domain's number and the offsets that raise the position.

        A time above `largest_time` is refused, because one wrong clock would make all other writers
        late.

        Two orders of the stages matter. Identity is first, because a process that lost its name
        must learn this, even if its note is wrong. Position is last, because to admit it adds its
        segments, and a refused note changes nothing. The other orders only decide which refusal a
        note with several faults gets.
        """
        if member is not None:
            refusal = _check_identity(note, member)
            if refusal is not None:
                return refusal
        domains = self._domains
        name = note.domain
        if name is None:
            if note.time is not None:
                name = domains.default
            else:
                name = self.find_domain(note)
        number = domains.numbers.get(name)
        # the conditions before the next calls save most notes the call
        has_domains = note.domains is not None or note.max_times
        if number is None or (has_domains and self._names_unknown_domain(note)):
            return Refused("unknown_domain")
        if member is None and note.state != "live":
            return Refused("unknown_writer")
        refusal = self._check_times(note, member, number, largest_time)
        has_terms = note.domains is not None or member is None or member.terms is not NO_TERMS
        if refusal is None and has_terms:
            refusal = _check_vouching(note, member, name)
        if refusal is not None:
            return refusal
        return self._check_position(note, member, number)

    def _names_unknown_domain(self, note: Note) -> bool:
        numbers = self._domains.numbers
        if note.domains is not None and not set() < set(note.domains) <= numbers.keys():
            return True
        return note.max_times is not None and not note.max_times.keys() <= numbers.keys()

    def _check_times(
        self, note: Note, member: Member | None, number: int, largest_time: int
    ) -> Refused | None:
        time = note.time
        max_time = note.max_time
        if time is not None and not LEAST_TIME <= time <= largest_time:
            return _refuse_too_far_ahead(note, largest_time)
        if max_time is not None and not LEAST_TIME <= max_time <= largest_time:
            return _refuse_too_far_ahead(note, largest_time)
        if note.max_times:
            for max_time in note.max_times.values():
                if not LEAST_TIME <= max_time <= largest_time:
                    return _refuse_too_far_ahead(note, largest_time)
        if time is None or time >= SECONDS_STOP or time < SECONDS_START:
            return None
        if self._is_in_seconds(member, number):
            return Refused("implausible_time", None, Beyond("time", time))
        return None

    def _check_position(
        self, note: Note, member: Member | None, number: int
    ) -> Refused | tuple[int, Mapping[int, int]]:
        """Refuse a time or a position that goes back, or offsets that are too many or too large."""
        position = note.position
        if self._succession.final:  # only sealed segments imply offsets
            offsets_beyond = self._succession.beyond_the_end(position)
            if offsets_beyond:
                return Refused("invalid_position", offsets_beyond)
            position = self._succession.normalise(position)
        noted_position = EMPTY_POSITION
        if member is not None:
            noted_position = member.position
            if number:
                last_time = member.other_tracks[number - 1].time
            else:
                last_time = member.first_track.time
            if note.time is not None and note.time < last_time and member.excluded != "removed":
                return Refused("invalid_time", last_time)
        if (
            len(noted_position) + len(position) > SEGMENTS_PER_POSITION
            and len(noted_position.keys() | position.keys()) > SEGMENTS_PER_POSITION
        ):
            return Refused("too_many_segments", SEGMENTS_PER_POSITION)
        max_jump = self._domains.segments.max_jump
        for segment, offset in position.items():
            if not 0 < offset - noted_position.get(segment, NOT_NAMED) <= max_jump:
                return self._check_offsets(number, position, noted_position)
        return number, position

    def _check_offsets(
        self, number: int, position: Mapping[int, int], noted_position: Mapping[int, int]
    ) -> Refused | tuple[int, Mapping[int, int]]:
        """Check a position with an offset that does not rise, jumps far, or is of a new segment."""
        offsets_behind = find_behind(position, noted_position)
        if offsets_behind:
            return Refused("invalid_position", offsets_behind)
        new_offsets = find_gained(position, noted_position)
        refusal = self._domains.segments.admit(new_offsets)
        if refusal is None:
            return (number, new_offsets)
        return refusal

    def _is_in_seconds(self, member: Member | None, number: int) -> bool:
        """Return whether a time that looks like seconds belongs to a stream of Unix ms.

        After smaller times it does not: the clock of the stream is another one, and goes on.
        """
        domains = self._domains
        if not domains.settings.are_unix_ms:
            return False
        latest_time = domains.by_number[number].lower
        if member is not None:
            latest_time = max(latest_time, member.track(number).time)
        return latest_time == BEFORE_ALL_TIME or latest_time > LEAST_UNIX_MS

    def find_domain(self, note: Note) -> str:
        default = self._domains.default
        if _is_for_one_domain(note):
            if note.domain is None:
                return default
            return note.domain
        # joining, idle and finished apply to all domains
        if default in self._domains.numbers:
            return default
        return self._domains.settings.domains[0]


def _check_identity(note: Note, member: Member) -> Refused | None:
    sequence = note.sequence
    if sequence is not None and sequence < member.sequence:
        return Refused("superseded", member.sequence)
    session = note.session
    if session is None or session == member.session.id:
        return None
    if member.session.admits(session, takes_over=note.takes_over, took_over=note.took_over):
        return None
    return Refused("fenced", member.session)


def _check_vouching(note: Note, member: Member | None, name: str) -> Refused | None:
    vouched_domains = note.domains
    if member is not None and not vouched_domains:
        vouched_domains = member.terms.domains
    if vouched_domains is None or name in vouched_domains:
        return None
    if _is_for_one_domain(note) and not _only_reports_late(note):
        return Refused("not_vouched", tuple(vouched_domains)[:DOMAINS_NAMED])
    return None


def _is_for_one_domain(note: Note) -> bool:
    return note.domain is not None or note.time is not None or note.max_time is not None


def _only_reports_late(note: Note) -> bool:
    """Return whether a note only reports late rows, perhaps of a domain that the writer dropped."""
    return note.late_rows is not None and note.time is None and note.max_time is None


def _refuse_too_far_ahead(note: Note, largest_time: int) -> Refused:
    times = {"time": note.time, "max_time": note.max_time}
    for name, max_time in (note.max_times or {}).items():
        times[f"max_times.{name}"] = max_time
    for field, time in times.items():
        if time is not None and not LEAST_TIME <= time <= largest_time:
            return Refused("too_far_ahead", largest_time, Beyond(field, time))
    raise AssertionError(note)
