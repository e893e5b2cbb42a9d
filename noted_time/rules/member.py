"""The members of a stream.

A `Member` is a writer. Its `Track` is its state in one time domain, and its `MemberRecord` is the
row that is stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from noted_time.values import (
    FROM_FIRST_MARK,
    MIN_INT64,
    NO_SESSION,
    NO_TERMS,
    ExcludedSince,
    ExclusionReason,
    LateRows,
    LogFact,
    Session,
    State,
    Terms,
    VouchingPeriod,
)

BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a domain yet, which is below every int64."""

MemberState = Literal["live", "idle", "finished", "excluded"]
"""The state that a member noted, unless it is excluded."""

Role = Literal["ahead", "holds", "late", "inactive"]
"""The role of a member in a domain.

`ahead`: its time is above the last lower. `holds`: the watermark waits for it. `late`: it is live,
but returned below the last lower, so the watermark does not wait. `rests`: idle or gone.
"""


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted, or that the stream expects. Membership spans all domains.

    On the service clock: `noted_at` is its last accepted note, and `since` the last change of its
    membership. In Unix ms: `heard_at` is its last accepted note (`None` if it never noted),
    `expected_at` when the stream began to expect it, and `joined_at` when it joined (`None` once
    it was removed).

    `sequence` is its largest accepted request number, or 0. `counted_as` is its state in the
    census. The track of the first domain is a field by itself, because most streams have one
    domain, and with 100,000 members each additional object costs a cache miss.
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
        """The member's tracks, in the order of the domains."""
        return (self.first_track, *self.other_tracks) if self.other_tracks else (self.first_track,)

    def track(self, number: int) -> Track:
        """Return the member's track in the domain with this number."""
        return self.other_tracks[number - 1] if number else self.first_track

    @property
    def has_written(self) -> bool:
        """Whether the member wrote any row."""
        return any(self.position.values())

    @property
    def is_active(self) -> bool:
        """Whether the member is live and not excluded."""
        return self.state == "live" and self.excluded is None

    @property
    def has_left(self) -> bool:
        """Whether the member finished or was excluded."""
        return self.state == "finished" or self.excluded is not None

    @property
    def exclusion(self) -> ExcludedSince | None:
        """The member's exclusion, from the first domain that has one."""
        return next((track.exclusion for track in self.tracks if track.exclusion), None)

    @property
    def holding_since(self) -> int | None:
        """When the member began to hold a domain (service clock), or `None`."""
        return min(
            (each.waiting_since for each in self.tracks if each.role == "holds"), default=None
        )

    @property
    def silent_since(self) -> int:
        """When the member last noted or left (service clock)."""
        return max(self.noted_at, self.since)

    def vouches_for(self, domain: str) -> bool:
        """Return whether the member vouches for a domain while it is live.

        A member vouches for all domains unless its terms name some.

        >>> from noted_time.values.membership import Terms
        >>> member = Member("UA", terms=Terms(domains=("ship_time",)))
        >>> member.vouches_for("ship_time"), member.vouches_for("order_time")
        (True, False)
        """
        domains = self.terms.domains
        return domains is None or domain in domains

    def adds_rows(self, named: Container[int], gained: Mapping[int, int]) -> bool:
        """Return whether the member wrote rows, and did not only name a successor segment.

        `named` contains the segments in its note, and `gained` the offsets beyond its position.
        """
        known = self.position
        return any(
            offset and (segment in named or segment in known) for segment, offset in gained.items()
        )

    def report_late(self, domain: str, late: LateRows) -> None:
        """Add rows that the member reported as below the domain's lower."""
        if self.late is None:
            self.late = {}
        known = self.late.get(domain)
        self.late[domain] = known.join(late) if known else late

    def restore(self, record: MemberRecord) -> None:
        """Restore the member's fields from its record. The domains restore its tracks."""
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
    """The moment (service clock) at which several members at the highest time were overtaken.

    The members share it, so overtaking all of them costs as much as overtaking one.
    """

    overtaken_at: int | None = None


@dataclass(slots=True, eq=False)
class Track:
    """The state of one member in one domain.

    `waiting_since` is when the member began to hold or to be late (service clock). `lead` is when another
    member noted a later time, or a `Lead` shared by several members; it may be too early once the
    member has noted again. `is_unreported` is set while no mark has named its exclusion. `vouching`
    contains the last two periods during which marks count the member. `in_ahead`, `in_absences` and
    `timeout_queued` tell which queues contain an entry, so that each has at most one.
    """

    member: Member
    lead: Lead | int | None
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    vouches_here: bool = True
    returned_late: bool = False
    is_undeclared: bool = False
    exclusion: ExcludedSince | None = None
    waiting_since: int = 0
    role: Role = "inactive"
    is_unreported: bool = False
    vouching_periods: tuple[VouchingPeriod, ...] = ()
    in_ahead: bool = False
    in_absences: bool = False
    timeout_queued: int | None = None

    @property
    def overtaken_at(self) -> int | None:
        """When another member noted a later time, or a moment before the member's last note."""
        return self.lead.overtaken_at if isinstance(self.lead, Lead) else self.lead

    def times_out_at(
        self, timeout_ms: int, waiting_since: int | None = None, overtaken_at: int | None = None
    ) -> int:
        """Return when the member times out if it stays silent (service clock).

        The timeout counts from the later of its last accepted note and the moment it was overtaken,
        and at the latest from when it began to hold. `waiting_since` and `overtaken_at` replace them.
        A member's own timeout precedes the stream's, and an operator's hold may extend it.
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
        """Return when the member is excluded if it stays silent, or `None` if it is not."""
        if self.is_waited_for:
            return self.times_out_at(timeout_ms)
        overtaken_at = self.overtaken_at
        is_ahead = self.role == "ahead" and overtaken_at is not None
        return self.times_out_at(timeout_ms, overtaken_at) if is_ahead else None

    @property
    def is_waited_for(self) -> bool:
        """Whether the member holds the watermark, or prevents a flush to the highest time."""
        return self.role == "holds" or self.role == "late"  # noqa: PLR1714 - asked for each note

    @property
    def is_excluded(self) -> bool:
        """Whether the watermark advances without the member."""
        return self.returned_late or self.member.excluded is not None

    @property
    def is_for_first_mark(self) -> bool:
        """Whether the domain's first mark names the member, even if it was excluded long before."""
        member = self.member
        was_excluded = member.excluded is not None and member.excluded != "removed"
        return self.vouches_here and was_excluded and member.state == "live"

    def is_missing_at(self, lower: int) -> bool:
        """Return whether a mark at `lower` would pass times that the member should vouch for."""
        return self.vouches_here and self.is_excluded and self.time < lower

    def has_caught_up(self, above: int) -> bool:
        """Return whether the member noted a time above `above`, which ends its exclusion."""
        return not self.returned_late and self.time > above

    @property
    def largest_time(self) -> int:
        """The largest event time that the member declared, or else its noted time."""
        return self.time if self.max_time is None else self.max_time

    @property
    def noted(self) -> int | None:
        """The member's last noted time, or `None`."""
        return None if self.time == BEFORE_ALL_TIME else self.time


class MemberRecord(NamedTuple):
    """The stored row of a member: its latest note in each domain, and its membership.

    `noted_at` and `since` are on the service clock; `heard_at`, `expected_at`, `joined_at` and the
    moments in `exclusions` are in Unix ms. They mean the same as in `Member`.

    By domain: `times` and `max_times` (int64), `late` (reported late rows), `exclusions`, and
    `vouching`. A domain that `vouching` lacks has counted the member since its first mark.
    `returned_late` lists the domains where the member returned below the last lower. `undeclared`
    lists the domains where it declared event times, but not for its last rows. `session` is the
    process that notes under its name, with its predecessors. `held` is the reason it gave for
    being alive without noting.

    A named tuple is used because one is created for every note; a frozen dataclass took four times
    as long.
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
    late: Mapping[str, LateRows] = {}
    returned_late: tuple[str, ...] = ()
    session: Session = NO_SESSION
    heard_at: int | None = None
    exclusions: Mapping[str, ExcludedSince] = {}
    undeclared: tuple[str, ...] = ()
    held: str | None = None
    expected_at: int | None = None
    joined_at: int | None = None
    vouching: Mapping[str, tuple[VouchingPeriod, ...]] = {}

    @property
    def exclusion(self) -> ExcludedSince | None:
        """The member's exclusion, from the first domain that has one."""
        return next(iter(self.exclusions.values()), None)


def record_of(member: Member, domains: Iterable[str]) -> MemberRecord:
    """Return the stored row of a member, given the stream's domains."""
    times: dict[str, int] = {}
    max_times: dict[str, int] = {}
    late: tuple[str, ...] = ()
    exclusions: dict[str, ExcludedSince] = {}
    undeclared: tuple[str, ...] = ()
    vouching: dict[str, tuple[VouchingPeriod, ...]] = {}
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
            exclusions[name] = track.exclusion
        if track.vouching_periods is not FROM_FIRST_MARK:
            vouching[name] = track.vouching_periods
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
        dict(member.late) if member.late else {},
        late,
        member.session,
        member.heard_at,
        exclusions,
        undeclared,
        member.hold_reason,
        member.expected_at,
        member.joined_at,
        vouching,
    )


class Census:
    """The number of members by state, so that metrics need not scan all members.

    >>> from noted_time import Aggregator, Note, StreamSettings
    >>> stream = Aggregator(StreamSettings())
    >>> for state in ("live", "idle"):
    ...     _ = stream.note(Note("UA", state=state), now=0)
    >>> stream.domains.census.members
    {'live': 0, 'idle': 1, 'finished': 0, 'excluded': 0}
    """

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: dict[MemberState, int] = dict.fromkeys(get_args(MemberState), 0)

    def update(self, member: Member) -> None:
        """Count a member that joined or whose state may have changed."""
        state: MemberState = "excluded" if member.exclusion else member.state
        if state != member.counted_as:
            self.remove(member)
            self.members[state] += 1
            member.counted_as = state

    def remove(self, member: Member) -> None:
        """Stop counting a member."""
        if member.counted_as is not None:
            self.members[member.counted_as] -= 1
