"""What must outlive the process of one writer."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - stores decode by the annotations
from typing import TYPE_CHECKING, NamedTuple

from noted_time.rules.member import BEFORE_ALL_TIME
from noted_time.values import (
    NO_SESSION,
    NO_TERMS,
    Exclusion,
    LateRows,
    Reason,
    Session,
    State,
    Terms,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from noted_time.rules.member import Member


class MemberRecord(NamedTuple):
    """The latest note of a writer per domain, and its membership.

    A tuple, because one is made for every note: a frozen dataclass took four times as long.

    `times` and `max_times` map domains to int64; `noted_at` (its last accepted
    note) and `since` (when its membership last changed) are on the service clock. `sequence` is the
    largest of its accepted notes, 0 where none had one. `late` has the late rows that it reported,
    by domain, and `returned_late` the domains in which it came back below the last lower. `session`
    is the process that notes under its name, with those that did before. `heard_at` is its last
    accepted note in Unix ms, `None` where it never came, and `exclusions` by domain why and since
    when (Unix ms) it is excluded. `undeclared` are the domains in which it declared event times,
    but not of what it wrote last.
    """

    writer: str
    state: State
    excluded: Reason | None
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
    exclusions: Mapping[str, Exclusion] = {}
    undeclared: tuple[str, ...] = ()

    @property
    def exclusion(self) -> Exclusion | None:
        """Why and since when it is excluded, in the first domain in which it is."""
        return next(iter(self.exclusions.values()), None)


def record_of(member: Member, domains: Iterable[str]) -> MemberRecord:
    """Return what must outlive the process of a member of a stream with these domains."""
    times: dict[str, int] = {}
    max_times: dict[str, int] = {}
    late: tuple[str, ...] = ()
    exclusions: dict[str, Exclusion] = {}
    undeclared: tuple[str, ...] = ()
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
        member.late or {},
        late,
        member.session,
        member.heard_at,
        exclusions,
        undeclared,
    )
