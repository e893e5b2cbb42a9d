"""Members of a stream, their state in each domain, and their stored rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from noted_time.open_enum import list_names
from noted_time.values import (
    FROM_FIRST_MARK,
    MIN_INT64,
    NO_SESSION,
    NO_TERMS,
    Exclusion,
    ExclusionReason,
    LateRows,
    LogFact,
    MemberState,
    Session,
    Spell,
    State,
    Terms,
)

BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a domain, below every int64."""

Role = Literal["ahead", "holds", "late", "inactive"]
"""A `late` member is live, but returned below the last lower and is excluded for that."""

NOT_COUNTED: tuple[Role, Role] = ("inactive", "late")


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted or is expected.

    `noted_at` and `since`, the last change of the membership, are on the service clock. `heard_at`
    (`None` if it never noted), `expected_at` and `joined_at` are in Unix ms.

    Most streams have one domain, so the first track is a separate field, to save a cache miss.
    """

    writer: str
    state: State = "live"
    excluded: ExclusionReason | None = None
    noted_at: int = 0
    heard_at: int | None = None
    expected_at: int | None = None
    joined_at: int | None = None
    since: int = 0
    sequence: int = 0
    session: Session = NO_SESSION
    terms: Terms = NO_TERMS
    position: dict[int, int] = field(default_factory=dict)
    first_track: Track = field(init=False)
    other_tracks: tuple[Track, ...] = ()
    late: dict[str, LateRows] | None = None
    hold_reason: str | None = None
    observes: bool = False
    log_facts: Sequence[LogFact] = ()
    is_queued_as_departed: bool = False
    counted_as: MemberState | None = None

    @property
    def tracks(self) -> tuple[Track, ...]:
        return (self.first_track, *self.other_tracks) if self.other_tracks else (self.first_track,)

    def track(self, number: int) -> Track:
        return self.other_tracks[number - 1] if number else self.first_track

    @property
    def has_written(self) -> bool:
        return any(self.position.values())

    @property
    def is_active(self) -> bool:
        return self.state == "live" and self.excluded is None

    @property
    def has_left(self) -> bool:
        return self.state == "finished" or self.excluded is not None

    @property
    def has_vouched(self) -> bool:
        """Return whether it noted, and did not finish and was not removed since."""
        return self.heard_at is not None and self.state != "finished" and self.excluded != "removed"

    @property
    def exclusion(self) -> Exclusion | None:
        return next((track.exclusion for track in self.tracks if track.exclusion), None)

    @property
    def holding_since(self) -> int | None:
        return min(
            (each.waiting_since for each in self.tracks if each.role == "holds"), default=None
        )

    @property
    def silent_since(self) -> int:
        return max(self.noted_at, self.since)

    def vouches_for(self, domain: str) -> bool:
        """Return whether the writer vouches for the domain whenever it is live.

        >>> from noted_time.values.membership import Terms
        >>> member = Member("UA", terms=Terms(domains=("ship_time",)))
        >>> member.vouches_for("ship_time"), member.vouches_for("order_time")
        (True, False)
        """
        domains = self.terms.domains
        return domains is None or domain in domains

    def adds_rows(self, named: Container[int], gained: Mapping[int, int]) -> bool:
        """Return whether `gained` contains rows of the member, beyond offsets of scale events."""
        known = self.position
        return any(
            offset and (segment in named or segment in known) for segment, offset in gained.items()
        )

    def report_late(self, domain: str, late: LateRows) -> None:
        if self.late is None:
            self.late = {}
        known = self.late.get(domain)
        self.late[domain] = known.join(late) if known else late

    def restore(self, record: MemberRecord) -> None:
        self.excluded = record.excluded
        self.since = record.since
        self.heard_at = record.heard_at
        self.expected_at = record.expected_at
        self.joined_at = record.joined_at
        self.sequence = record.sequence
        self.hold_reason = record.held
        self.session = record.session
        self.late = dict(record.late) or None
        self.position.update(record.position)


@dataclass(slots=True, eq=False)
class Lead:
    """When several members at the highest time were overtaken (service clock).

    They share it, so that overtaking all costs as much as overtaking one.
    """

    overtaken_at: int | None = None


@dataclass(slots=True, eq=False)
class Track:
    """The state of one member in one domain. Notes and advances use the first fields.

    - `lead`: when another member noted a later time (service clock), or a shared `Lead`. The moment
      may be too early if the member has noted since.
    - `spells`: the last two during which marks count the member.
    - `first_time`: the time of its first note, if this was below the lower.
    - `absent_after`: the last seq when it was excluded or dropped the domain, 0 before any mark.
    - `narrowed_at`: when it dropped the domain (Unix ms).
    - `joined_after`: the last seq when the writer became a member, 0 once a mark follows.
    - `rows_from`: the least time of its rows, if its first note stated it before a mark counted it.
    """

    member: Member
    lead: Lead | int | None
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    vouches_here: bool = True
    returned_late: bool = False
    is_undeclared: bool = False
    exclusion: Exclusion | None = None
    waiting_since: int = 0
    role: Role = "inactive"
    in_ahead: bool = False
    timeout_queued: int | None = None
    spells: tuple[Spell, ...] = ()
    absent_after: int | None = None
    is_queued_as_absent: bool = False
    first_time: int | None = None
    narrowed_at: int | None = None
    rows_from: int | None = None
    joined_after: int = 0

    @property
    def overtaken_at(self) -> int | None:
        return self.lead.overtaken_at if isinstance(self.lead, Lead) else self.lead

    def times_out_at(
        self, timeout_ms: int, waiting_since: int | None = None, overtaken_at: int | None = None
    ) -> int:
        """Return when the member times out if it stays silent (service clock).

        The timeout starts when it was overtaken or became a holder, but not before its last note.
        """
        member, terms = self.member, self.member.terms
        since = self.waiting_since if waiting_since is None else waiting_since
        if overtaken_at is None:
            overtaken_at = self.overtaken_at
        if overtaken_at is not None and overtaken_at < since:
            since = overtaken_at
        silent_since = max(member.noted_at, since)
        if terms is NO_TERMS:
            return silent_since + timeout_ms
        own = timeout_ms if terms.timeout_ms is None else terms.timeout_ms
        return max(silent_since + own, terms.hold_until or 0)

    def excluded_at(self, timeout_ms: int) -> int | None:
        if self.is_waited_for:
            return self.times_out_at(timeout_ms)
        overtaken_at = self.overtaken_at
        is_ahead = self.role == "ahead" and overtaken_at is not None
        return self.times_out_at(timeout_ms, overtaken_at) if is_ahead else None

    @property
    def is_waited_for(self) -> bool:
        return self.role == "holds" or self.role == "late"  # noqa: PLR1714 - called for each note

    @property
    def is_excluded(self) -> bool:
        is_out = self.returned_late or self.member.excluded is not None
        return self.narrowed_at is not None or (self.vouches_here and is_out)

    @property
    def is_for_first_mark(self) -> bool:
        member = self.member
        was_excluded = member.excluded is not None and member.excluded != "removed"
        return self.vouches_here and was_excluded and member.state == "live"

    def is_missing_at(self, lower: int) -> bool:
        """Return whether a mark at `lower` may lack rows that the member should vouch for."""
        return self.is_excluded and self.is_passed_by(lower)

    def is_passed_by(self, lower: int) -> bool:
        """Return whether a mark at `lower`, above the last one, is above the member's time.

        The times of a removed member do not count.
        """
        return self.member.excluded == "removed" or self.time < lower

    def has_caught_up(self, above: int) -> bool:
        return not self.returned_late and self.time > above

    @property
    def largest_time(self) -> int:
        return self.time if self.max_time is None else self.max_time

    @property
    def vouched_to(self) -> int | None:
        """The time to which the member vouched, if it started again since."""
        return next((each.until for each in self.spells if each.until is not None), None)

    @property
    def noted(self) -> int | None:
        return None if self.time == BEFORE_ALL_TIME else self.time


NO_FACTS: dict[str, Any] = {}
"""Shared by most records, because a comparison with a shared default costs least."""


class MemberRecord(NamedTuple):
    """The stored row of a member; mappings are by domain.

    `undeclared` has the domains where it declared event times, but not for its last rows.
    `vouching` leaves out a domain whose marks all include the member's rows. `first_times` has the
    times of first notes below the lower. `narrowed_at`, `absent_after`, `rows_from` and
    `joined_after` are those of `Track`.

    A named tuple, because every note creates one.
    """

    writer: str
    state: State
    excluded: ExclusionReason | None
    position: Mapping[int, int]
    times: Mapping[str, int]
    max_times: Mapping[str, int]
    noted_at: int
    since: int
    sequence: int = 0
    terms: Terms = NO_TERMS
    late: Mapping[str, LateRows] = NO_FACTS
    returned_late: tuple[str, ...] = ()
    session: Session = NO_SESSION
    heard_at: int | None = None
    exclusions: Mapping[str, Exclusion] = NO_FACTS
    undeclared: tuple[str, ...] = ()
    held: str | None = None
    expected_at: int | None = None
    joined_at: int | None = None
    vouching: Mapping[str, tuple[tuple[int, int | None], ...]] = NO_FACTS
    first_times: Mapping[str, int] = NO_FACTS
    narrowed_at: Mapping[str, int] = NO_FACTS
    absent_after: Mapping[str, int] = NO_FACTS
    rows_from: Mapping[str, int] = NO_FACTS
    joined_after: Mapping[str, int] = NO_FACTS

    @property
    def exclusion(self) -> Exclusion | None:
        """The exclusion in the first domain with one, or `None`."""
        return next(iter(self.exclusions.values()), None)


def record_of(  # noqa: C901 - one branch for each field
    member: Member, domains: Iterable[str]
) -> MemberRecord:
    times: dict[str, int] = {}
    max_times: dict[str, int] = {}
    late: tuple[str, ...] = ()
    exclusions = NO_FACTS
    undeclared: tuple[str, ...] = ()
    vouching = NO_FACTS
    first_times = NO_FACTS
    narrowed_at = NO_FACTS
    absent_after = NO_FACTS
    rows_from = NO_FACTS
    joined_after = NO_FACTS
    for name, track in zip(domains, member.tracks, strict=True):
        if track.time != BEFORE_ALL_TIME:
            times[name] = track.time
        if track.max_time is not None:
            max_times[name] = track.max_time
            if track.is_undeclared:
                undeclared += (name,)
        if track.returned_late:
            late += (name,)
        if track.exclusion is not None:
            exclusions = _add_fact(exclusions, name, track.exclusion)
        if track.spells is not FROM_FIRST_MARK:
            spells = tuple([(each.from_seq, each.until) for each in track.spells])
            vouching = _add_fact(vouching, name, spells)
        if track.first_time is not None:
            first_times = _add_fact(first_times, name, track.first_time)
        if track.narrowed_at is not None:
            narrowed_at = _add_fact(narrowed_at, name, track.narrowed_at)
        if track.absent_after is not None and track.is_excluded:
            absent_after = _add_fact(absent_after, name, track.absent_after)
        if track.rows_from is not None:
            rows_from = _add_fact(rows_from, name, track.rows_from)
        if track.joined_after:
            joined_after = _add_fact(joined_after, name, track.joined_after)
    return MemberRecord(
        member.writer,
        member.state,
        member.excluded,
        member.position.copy(),
        times,
        max_times,
        member.noted_at,
        member.since,
        member.sequence,
        member.terms,
        dict(member.late) if member.late else NO_FACTS,
        late,
        member.session,
        member.heard_at,
        exclusions,
        undeclared,
        member.hold_reason,
        member.expected_at,
        member.joined_at,
        vouching,
        first_times,
        narrowed_at,
        absent_after,
        rows_from,
        joined_after,
    )


def _add_fact(facts: dict[str, Any], domain: str, fact: object) -> dict[str, Any]:
    if facts is NO_FACTS:
        return {domain: fact}
    facts[domain] = fact
    return facts


class Census:
    """The number of members by state, for metrics without a scan."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: dict[MemberState, int] = dict.fromkeys(list_names(MemberState), 0)

    def update(self, member: Member) -> None:
        state: MemberState = "excluded" if member.exclusion else member.state
        if state != member.counted_as:
            self.remove(member)
            self.members[state] += 1
            member.counted_as = state

    def remove(self, member: Member) -> None:
        if member.counted_as is not None:
            self.members[member.counted_as] -= 1
