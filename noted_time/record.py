"""What must outlive the process of one writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from noted_time.domain import BEFORE_ALL_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.domain import Member
    from noted_time.note import State


class MemberRecord(NamedTuple):
    """The latest note of a writer per key, and its membership.

    A tuple, because one is made for every note: a frozen dataclass took four times as long.

    `times` and `max_times` map keys to int64; `noted_at` (its last accepted
    note) and `since` (when its membership last changed) are on the service clock. `sequence` is the
    largest of its accepted notes, 0 where none had one.
    """

    writer: str
    state: State
    left_out: bool
    position: Mapping[int, int]
    times: Mapping[str, int]
    max_times: Mapping[str, int]
    noted_at: int
    since: int
    sequence: int = 0


def record_of(member: Member) -> MemberRecord:
    """Return what must outlive the process of a member."""
    times: dict[str, int] = {}
    max_times: dict[str, int] = {}
    for track in member.tracks:
        if track.time != BEFORE_ALL_TIME:
            times[track.domain.key] = track.time
        if track.max_time is not None:
            max_times[track.domain.key] = track.max_time
    return MemberRecord(
        member.writer,
        member.state,
        member.left_out,
        member.position.copy(),
        times,
        max_times,
        member.noted_at,
        member.since,
        member.sequence,
    )
