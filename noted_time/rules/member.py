"""The members of a stream: its writers, how each stands in each time domain, and what is stored.

A `Member` is a writer, a `Track` its standing in one domain, and a `MemberRecord` what is stored of
it.
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
"""The time of a member that has not noted a domain yet: below every int64."""

MemberState = Literal["live", "idle", "finished", "excluded"]
"""The state of a member, or that it is excluded."""

Role = Literal["ahead", "holds", "late", "rests"]
"""`ahead` of the last lower; `holds` time back; `late`: live, but not waited for as it returned
below the last lower; `rests`: not waited for."""


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted, or that the stream expects; membership is for all domains at once.

    `noted_at`, its last accepted note, and `since`, the last change of its membership, are on the
    service clock. `heard_at` is the time of that note in Unix ms, `None` if it is expected and
    never noted, and `expected_at` since when it is expected, in Unix ms. `joined_at` is when it
    joined in Unix ms, `None` once it was removed. `counted_as` is how the census counts it.
    `sequence` is the largest of its accepted requests, 0 if they had none. Its tracks are kept as
    that of the first domain and the others: most streams have only one, and with 100,000 members
    each further object costs a cache miss.
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
    first: Track = field(init=False)
    others: tuple[Track, ...] = ()
    late: dict[str, LateRows] | None = None
    held: str | None = None
    observes: bool = False
    because: Sequence[LogFact] = ()
    is_queued_as_gone: bool = False
    counted_as: MemberState | None = None

    @property
    def tracks(self) -> tuple[Track, ...]:
        """Its track in each domain, in the order of the domains."""
        return (self.first, *self.others) if self.others else (self.first,)

    def track(self, number: int) -> Track:
        """Return its track in the domain of that number."""
        return self.others[number - 1] if number else self.first

    @property
    def wrote(self) -> bool:
        """Whether any row lies below its position."""
        return any(self.position.values())

    @property
    def vouches(self) -> bool:
        """Whether it is live and did not time out."""
        return self.state == "live" and self.excluded is None

    @property
    def is_gone(self) -> bool:
        """Whether it finished or was excluded."""
        return self.state == "finished" or self.excluded is not None

    @property
    def exclusion(self) -> ExcludedSince | None:
        """Why and since when it is excluded, in the first domain in which it is."""
        return next((track.exclusion for track in self.tracks if track.exclusion), None)

    @property
    def holding_since(self) -> int | None:
        """Since when (service clock) it holds any domain, `None` if it does not."""
        return min((each.began for each in self.tracks if each.role == "holds"), default=None)

    @property
    def silent_since(self) -> int:
        """When (service clock) it last noted, or left."""
        return max(self.noted_at, self.since)

    def vouches_for(self, domain: str) -> bool:
        """Whether it vouches for that domain as long as it is live (all unless it names some).

        >>> from noted_time.values.membership import Terms
        >>> member = Member("UA", terms=Terms(domains=("ship_time",)))
        >>> member.vouches_for("ship_time"), member.vouches_for("order_time")
        (True, False)
        """
        domains = self.terms.domains
        return domains is None or domain in domains

    def wrote_by(self, named: Container[int], gained: Mapping[int, int]) -> bool:
        """Whether it wrote the rows that its position gains, and did not only name a successor.

        `named` are the segments that its note names.
        """
        known = self.position
        return any(
            offset and (segment in named or segment in known) for segment, offset in gained.items()
        )

    def report_late(self, domain: str, late: LateRows) -> None:
        """Add rows that it reports to have written below a domain's lower."""
        if self.late is None:
            self.late = {}
        known = self.late.get(domain)
        self.late[domain] = known.join(late) if known else late

    def restore(self, record: MemberRecord) -> None:
        """Restore its fields from the record; the domains restore its tracks."""
        self.excluded = record.excluded
        self.since = record.since
        self.heard_at = record.heard_at
        self.expected_at = record.expected_at
        self.joined_at = record.joined_at
        self.sequence = record.sequence
        self.held = record.held
        self.session = record.session
        self.late = dict(record.late) or None
        self.position.update(record.position)


@dataclass(slots=True, eq=False)
class Lead:
    """What several members at the highest time share: when (service clock) they were overtaken.

    So overtaking all of them costs as much as overtaking one.
    """

    ended: int | None = None


@dataclass(slots=True, eq=False)
class Track:
    """The standing of one member in one domain.

    `began` is the service time at which it last began to hold time back, or to be late. `lead` is
    when another member noted a later time (`None`: none did), or the `Lead` that has that for
    several; after a note of its own it may be too early. `exclusion` is why it is excluded;
    `is_unrecorded`: no mark has named it yet. `vouching` has the last two periods in which marks
    count it. The last three say which of the domain's queues have an entry for it, so that each has
    at most one.
    """

    member: Member
    lead: Lead | int | None
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    vouched: bool = True
    returned_late: bool = False
    is_undeclared: bool = False
    exclusion: ExcludedSince | None = None
    began: int = 0
    role: Role = "rests"
    is_unrecorded: bool = False
    vouching: tuple[VouchingPeriod, ...] = ()
    in_ahead: bool = False
    in_absences: bool = False
    timeout_queued: int | None = None

    @property
    def overtaken(self) -> int | None:
        """When another member noted a later time, or some moment before its last note."""
        return self.lead.ended if isinstance(self.lead, Lead) else self.lead

    def times_out_at(
        self, timeout_ms: int, began: int | None = None, overtaken: int | None = None
    ) -> int:
        """Return when the member times out if it stays silent (service clock).

        Its timeout, by default the stream's, counts from its last accepted note or the moment it
        was overtaken, whichever is later, but at latest from when it began to hold. `began` and
        `overtaken` replace these moments by others. An operator may hold it for longer.
        """
        member, terms = self.member, self.member.terms
        since = self.began if began is None else began
        if overtaken is None:
            overtaken = self.overtaken
        if overtaken is not None and overtaken < since:
            since = overtaken
        silent_since = max(member.noted_at, since)
        if terms is NO_TERMS:
            return silent_since + timeout_ms
        own = timeout_ms if terms.timeout_ms is None else terms.timeout_ms
        return max(silent_since + own, terms.hold_until or 0)

    def out_at(self, timeout_ms: int) -> int | None:
        """Return when it is excluded if it stays silent and holds by then."""
        if self.is_waited_for:
            return self.times_out_at(timeout_ms)
        overtaken = self.overtaken
        is_ahead = self.role == "ahead" and overtaken is not None
        return self.times_out_at(timeout_ms, overtaken) if is_ahead else None

    @property
    def is_waited_for(self) -> bool:
        """Whether it holds time back, or prevents a flush to the highest time."""
        return self.role == "holds" or self.role == "late"  # noqa: PLR1714 - asked for each note

    @property
    def is_out(self) -> bool:
        """Whether time advances without the member."""
        return self.returned_late or self.member.excluded is not None

    @property
    def is_for_first_mark(self) -> bool:
        """Whether the first mark of a domain names it, however long ago it was excluded."""
        member = self.member
        is_out = member.excluded is not None and member.excluded != "removed"
        return self.vouched and is_out and member.state == "live"

    def is_missed_at(self, lower: int) -> bool:
        """Whether a mark at `lower` would advance without it over times that it vouches for."""
        return self.vouched and self.is_out and self.time < lower

    def has_caught_up(self, above: int) -> bool:
        """Whether it is no longer excluded, if it noted a time above `above`."""
        return not self.returned_late and self.time > above

    @property
    def largest(self) -> int:
        """The largest event time that it declared, or its noted time if it declared none."""
        return self.time if self.max_time is None else self.max_time

    @property
    def noted(self) -> int | None:
        """Its last time, `None` before the first."""
        return None if self.time == BEFORE_ALL_TIME else self.time


class MemberRecord(NamedTuple):
    """The latest note of a writer per domain, and its membership.

    A tuple, because one is created for every note: a frozen dataclass took four times as long.
    `times` and `max_times` map domains to int64; `noted_at` (its last accepted note) and `since`
    (when its membership last changed) are on the service clock. `sequence` is the largest of its
    accepted notes, 0 if none had one. `late` has the late rows that it reported, by domain, and
    `returned_late` the domains in which it returned below the last lower. `session` is the process
    that notes under its name, with its predecessors. `heard_at` is the time of its last accepted
    note in Unix ms, `None` if it never noted. `exclusions` says by domain why and since when (Unix
    ms) it is excluded. `undeclared` are the domains in which it declared event times, but not those
    of its last rows. `held` is why it lives and does not note, as it said in its last note.
    `expected_at` is since when the stream expects it, and `joined_at` when it joined, in Unix ms.
    `vouching` has, by domain, the last two periods in which marks count it; a domain that is absent
    has counted it from its first mark on.
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
        """Why and since when it is excluded, in the first domain in which it is."""
        return next(iter(self.exclusions.values()), None)


def record_of(member: Member, domains: Iterable[str]) -> MemberRecord:
    """Return what is stored of a member of a stream with these domains."""
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
        if track.vouching is not FROM_FIRST_MARK:
            vouching[name] = track.vouching
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
        member.held,
        member.expected_at,
        member.joined_at,
        vouching,
    )


class Census:
    """The members of one stream by state, so that a scrape need not look at all of them.

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

    def count(self, member: Member) -> None:
        """Count a member that joined, or whose state may have changed."""
        standing: MemberState = "excluded" if member.exclusion else member.state
        if standing != member.counted_as:
            self.leave(member)
            self.members[standing] += 1
            member.counted_as = standing

    def leave(self, member: Member) -> None:
        """Stop counting a member."""
        if member.counted_as is not None:
            self.members[member.counted_as] -= 1
