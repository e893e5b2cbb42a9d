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

EMPTY_POSITION: Mapping[int, int] = MappingProxyType({})


class NoteChecks:
    """The state against which the notes of one stream are checked."""

    __slots__ = ("_domains", "_succession")

    def __init__(self, domains: Domains, succession: Succession) -> None:
        self._domains = domains
        self._succession = succession

    def check(  # noqa: C901, PLR0911, PLR0912 - one branch for each refusal, hot path
        self, note: Note, member: Member | None, largest_time: int
    ) -> Refused | tuple[int, Mapping[int, int]]:
        """Refuse a note, or return its domain's number and the offsets that raise the position.

        A time above `largest_time` is refused, because one wrong clock would make all other writers
        late.
        """
        domains = self._domains
        numbers = self._domains.numbers
        sequence = note.sequence
        session = note.session
        if member is not None:
            if sequence is not None and sequence < member.sequence:
                return Refused("superseded", member.sequence)
            current = member.session
            if (
                session != current.id
                and session is not None
                and not current.admits(
                    session, takes_over=note.takes_over, took_over=note.took_over
                )
            ):
                return Refused("fenced", current)
        name = note.domain
        time = note.time
        max_time = note.max_time
        max_times = note.max_times
        if name is None:
            name = self.find_domain(note) if time is None else domains.default
        number = numbers.get(name)
        if (
            number is None
            or (note.domains is not None and not set() < set(note.domains) <= numbers.keys())
            or (max_times and not max_times.keys() <= numbers.keys())
        ):
            return Refused("unknown_domain")
        if member is None and note.state != "live":
            return Refused("unknown_writer")
        if (
            (time is not None and not LEAST_TIME <= time <= largest_time)
            or (max_time is not None and not LEAST_TIME <= max_time <= largest_time)
            or (max_times and max(max_times.values()) > largest_time)
            or (max_times and min(max_times.values()) < LEAST_TIME)
        ):
            return _refuse_too_far_ahead(note, largest_time)
        if (
            time is not None
            and time < NOTED_SECONDS.stop
            and time >= NOTED_SECONDS.start
            and self._is_in_seconds(member, number)
        ):
            return Refused("implausible_time", None, Beyond("time", time))
        vouched_domains = note.domains if member is None else note.domains or member.terms.domains
        if (
            vouched_domains is not None
            and name not in vouched_domains
            and _is_for_one_domain(note)
            and not _only_reports_late(note)
        ):
            return Refused("not_vouched", tuple(vouched_domains)[:DOMAINS_NAMED])
        position = note.position
        if self._succession.final:  # only sealed segments imply offsets
            offsets_beyond = self._succession.beyond_the_end(position)
            if offsets_beyond:
                return Refused("invalid_position", offsets_beyond)
            position = self._succession.normalise(position)
        noted_position = EMPTY_POSITION
        if member is not None:
            noted_position = member.position
            last_time = member.other_tracks[number - 1].time if number else member.first_track.time
            if time is not None and time < last_time and member.excluded != "removed":
                return Refused("invalid_time", last_time)
        segment_limit = SEGMENTS_PER_POSITION
        max_jump = domains.segments.max_jump
        if (
            len(noted_position) + len(position) > segment_limit
            and len(noted_position.keys() | position.keys()) > segment_limit
        ):
            return Refused("too_many_segments", segment_limit)
        for segment, offset in position.items():
            if not 0 < offset - noted_position.get(segment, NOT_NAMED) <= max_jump:
                offsets_behind = find_behind(position, noted_position)
                if offsets_behind:
                    return Refused("invalid_position", offsets_behind)
                position = find_gained(position, noted_position)
                refusal = domains.segments.admit(position)
                if refusal is not None:
                    return refusal
                break
        return number, position

    def _is_in_seconds(self, member: Member | None, number: int) -> bool:
        """Return whether a time that looks like seconds belongs to a stream of Unix ms.

        After smaller times it does not: the clock of the stream is another one, and goes on.
        """
        domains = self._domains
        if not domains.settings.are_unix_ms:
            return False
        highest_time = domains.by_number[number].lower
        if member is not None:
            highest_time = max(highest_time, member.track(number).time)
        return highest_time == BEFORE_ALL_TIME or highest_time > LEAST_UNIX_MS

    def find_domain(self, note: Note) -> str:
        default = self._domains.default
        if _is_for_one_domain(note):
            return default if note.domain is None else note.domain
        # joining, idle and finished apply to all domains
        return default if default in self._domains.numbers else self._domains.settings.domains[0]


def _is_for_one_domain(note: Note) -> bool:
    return note.domain is not None or note.time is not None or note.max_time is not None


def _only_reports_late(note: Note) -> bool:
    """Return whether a note only reports late rows, perhaps of a domain that the writer dropped."""
    return note.late_rows is not None and note.time is None and note.max_time is None


def _refuse_too_far_ahead(note: Note, largest_time: int) -> Refused:
    times = [("time", note.time), ("max_time", note.max_time)]
    times += [(f"max_times.{name}", time) for name, time in (note.max_times or {}).items()]
    times_beyond = (
        Beyond(field, time)
        for field, time in times
        if time is not None and not LEAST_TIME <= time <= largest_time
    )
    return Refused("too_far_ahead", largest_time, next(times_beyond))
