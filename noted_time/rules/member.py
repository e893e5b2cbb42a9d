"""Members of a stream, their state in each domain, and their stored rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from noted_time.open_enum import list_names
from noted_time.rules.membership import NOT_JOINED, Membership
from noted_time.values import (
    MIN_INT64,
    NO_SESSION,
    NO_TERMS,
    Exclusion,
    ExclusionReason,
    LateRows,
    LogFact,
    MemberState,
    Session,
    State,
    Terms,
)

BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a domain, below every int64."""

Role = Literal["ahead", "holding_back", "returned_below", "inactive"]
"""A `returned_below` member is live, but returned below the last lower and is excluded for that."""

NOT_COUNTED: tuple[Role, Role] = ("inactive", "returned_below")


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted or is expected.

    `noted_served_ms` and `changed_served_ms`, the last change of the membership, are on the service
    clock. `heard_at` (`None` if it never noted), `expected_at` and `joined_at` are in Unix ms.

    Most streams have one domain, so the first track is a separate field, to save a cache miss.
    """

    writer: str
    state: State = "live"
    excluded: ExclusionReason | None = None
    noted_served_ms: int = 0
    heard_at: int | None = None
    expected_at: int | None = None
    joined_at: int | None = None
    changed_served_ms: int = 0
    sequence: int = 0
    session: Session = NO_SESSION
    terms: Terms = NO_TERMS
    position: dict[int, int] = field(default_factory=dict)
    first_track: Track = field(init=False)
    other_tracks: tuple[Track, ...] = ()
    late_rows: dict[str, LateRows] | None = None
    no_time_reason: str | None = None
    observes: bool = False
    log_facts: Sequence[LogFact] = ()
    is_queued_as_departed: bool = False
    counted_as: MemberState | None = None
    contact: str | None = None

    @property
    def tracks(self) -> tuple[Track, ...]:
        if self.other_tracks:
            return (self.first_track, *self.other_tracks)
        return (self.first_track,)

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
        for track in self.tracks:
            if track.membership.exclusion:
                return track.membership.exclusion
        return None

    @property
    def holding_back_served_ms(self) -> int | None:
        moments = [track.waiting_served_ms for track in self.tracks if track.role == "holding_back"]
        return min(moments, default=None)

    @property
    def silent_served_ms(self) -> int:
        return max(self.noted_served_ms, self.changed_served_ms)

    def vouches_for(self, domain: str) -> bool:
        """Return whether the writer vouches for the domain whenever it is live.

        >>> from noted_time.values.writer_state import Terms
        >>> member = Member("UA", terms=Terms(domains=("ship_time",)))
        >>> member.vouches_for("ship_time"), member.vouches_for("order_time")
        (True, False)
        """
        domains = self.terms.domains
        return domains is None or domain in domains

    def adds_rows(self, named_segments: Container[int], new_offsets: Mapping[int, int]) -> bool:
        """Return whether `new_offsets` have rows of the member, beyond offsets of scale events."""
        for segment, offset in new_offsets.items():
            if offset and (segment in named_segments or segment in self.position):
                return True
        return False

    def report_late(self, domain: str, late_rows: LateRows) -> None:
        if self.late_rows is None:
            self.late_rows = {}
        earlier_rows = self.late_rows.get(domain)
        self.late_rows[domain] = earlier_rows.join(late_rows) if earlier_rows else late_rows

    def restore(self, record: MemberRecord) -> None:
        self.excluded = record.excluded
        self.noted_served_ms = record.noted_served_ms
        self.changed_served_ms = record.changed_served_ms
        self.heard_at = record.heard_at
        self.expected_at = record.expected_at
        self.joined_at = record.joined_at
        self.sequence = record.sequence
        self.no_time_reason = record.no_time_reason
        self.session = record.session
        self.late_rows = dict(record.late_rows) or None
        self.contact = record.contact
        self.position.update(record.position)


@dataclass(slots=True, eq=False)
class Lead:
    """When several members at the highest time were overtaken (service clock).

    Members tied at the highest time share one `Lead`, so one assignment marks them all.
    """

    overtaken_served_ms: int | None = None


@dataclass(slots=True, eq=False)
class Track:
    """The state of one member in one domain. Notes and advances use the first fields.

    - `lead`: when another member noted a later time (service clock), or a shared `Lead`. The moment
      may be too early if the member has noted since.
    - `stored`: the membership as the database has it. `None` if it has no row.
    """

    member: Member
    lead: Lead | int | None
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    vouches_here: bool = True
    is_undeclared: bool = False
    membership: Membership = NOT_JOINED
    waiting_served_ms: int = 0
    role: Role = "inactive"
    in_ahead: bool = False
    timeout_queued: int | None = None
    is_queued_as_absent: bool = False
    stored: Membership | None = None

    @property
    def overtaken_served_ms(self) -> int | None:
        if isinstance(self.lead, Lead):
            return self.lead.overtaken_served_ms
        return self.lead

    def times_out_served_ms(
        self,
        timeout_ms: int,
        waiting_served_ms: int | None = None,
        overtaken_served_ms: int | None = None,
    ) -> int:
        """Return when the member times out if it stays silent (service clock).

        The timeout starts when it was overtaken or began to hold back the watermark, but not before
        its last note.
        """
        member = self.member
        terms = self.member.terms
        if waiting_served_ms is None:
            start_served_ms = self.waiting_served_ms
        else:
            start_served_ms = waiting_served_ms
        if overtaken_served_ms is None:
            overtaken_served_ms = self.overtaken_served_ms
        if overtaken_served_ms is not None and overtaken_served_ms < start_served_ms:
            start_served_ms = overtaken_served_ms
        silent_served_ms = max(member.noted_served_ms, start_served_ms)
        if terms is NO_TERMS:
            return silent_served_ms + timeout_ms
        if terms.timeout_ms is None:
            own_timeout_ms = timeout_ms
        else:
            own_timeout_ms = terms.timeout_ms
        return max(silent_served_ms + own_timeout_ms, terms.suspension_ends_served_ms or 0)

    def excluded_served_ms(self, timeout_ms: int) -> int | None:
        if self.is_waited_for:
            return self.times_out_served_ms(timeout_ms)
        overtaken_served_ms = self.overtaken_served_ms
        is_ahead = self.role == "ahead" and overtaken_served_ms is not None
        if not is_ahead:
            return None
        return self.times_out_served_ms(timeout_ms, overtaken_served_ms)

    @property
    def is_waited_for(self) -> bool:
        role = self.role  # read for each note
        return role == "holding_back" or role == "returned_below"  # noqa: PLR1714 - the fastest

    @property
    def is_counted(self) -> bool:
        return self.membership.status == "counted"

    @property
    def is_narrowed(self) -> bool:
        return self.membership.status == "narrowed"

    def is_missing_at(self, lower: int) -> bool:
        """Return whether a mark at `lower` may lack rows that the member should vouch for."""
        return self.membership.is_absent and self.is_passed_by(lower)

    def is_passed_by(self, lower: int) -> bool:
        """Return whether a mark at `lower`, above the last one, is above the member's time.

        The times of a removed member do not count.
        """
        return self.member.excluded == "removed" or self.time < lower

    @property
    def largest_time(self) -> int:
        if self.max_time is None:
            return self.time
        return self.max_time

    @property
    def noted(self) -> int | None:
        if self.time == BEFORE_ALL_TIME:
            return None
        return self.time


NO_LATE_ROWS: Mapping[str, LateRows] = {}
"""Shared by most records, because a comparison with a shared default costs least."""


class MemberRecord(NamedTuple):
    """The stored row of a member; mappings are by domain.

    `undeclared` has the domains where it declared event times, but not for its last rows.

    A named tuple, because every note creates one.
    """

    writer: str
    state: State
    excluded: ExclusionReason | None
    position: Mapping[int, int]
    times: Mapping[str, int]
    max_times: Mapping[str, int]
    noted_served_ms: int
    changed_served_ms: int
    sequence: int = 0
    terms: Terms = NO_TERMS
    late_rows: Mapping[str, LateRows] = NO_LATE_ROWS
    session: Session = NO_SESSION
    heard_at: int | None = None
    undeclared: tuple[str, ...] = ()
    no_time_reason: str | None = None
    expected_at: int | None = None
    joined_at: int | None = None
    contact: str | None = None


def record_of(member: Member, domains: Iterable[str]) -> MemberRecord:
    times: dict[str, int] = {}
    max_times: dict[str, int] = {}
    undeclared_domains: tuple[str, ...] = ()
    for name, track in zip(domains, member.tracks, strict=True):
        if track.time != BEFORE_ALL_TIME:
            times[name] = track.time
        if track.max_time is not None:
            max_times[name] = track.max_time
            if track.is_undeclared:
                undeclared_domains += (name,)
    return MemberRecord(
        member.writer,
        member.state,
        member.excluded,
        member.position.copy(),
        times,
        max_times,
        member.noted_served_ms,
        member.changed_served_ms,
        member.sequence,
        member.terms,
        dict(member.late_rows) if member.late_rows else NO_LATE_ROWS,
        member.session,
        member.heard_at,
        undeclared_domains,
        member.no_time_reason,
        member.expected_at,
        member.joined_at,
        member.contact,
    )


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
