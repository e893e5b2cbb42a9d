"""What is answered to a note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.values.fencing import Session
    from noted_time.values.membership import ExcludedSince
    from noted_time.values.times import Beyond


@dataclass(frozen=True, slots=True)
class Accepted:
    """The note counts; `lower` is that of its domain's last mark, `None` before the first.

    `exclusion` says that time advanced without the writer, which has not caught up since. Where it
    joined, `timeout_ms` is in force for it, and `position` and `times` (the last of each domain)
    are all that is known of its own, if it named a position before: one that restarts goes on from
    there.
    """

    lower: int | None
    exclusion: ExcludedSince | None = None
    position: Mapping[int, int] | None = None
    times: Mapping[str, int] | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The note fell behind what its writer said before, or goes beyond a bound.

    `last` is what it fell behind: an int for `invalid_time`, the offsets of the offending segments
    for `invalid_position`, the largest sequence accepted of the writer for `superseded`, the
    session that has the writer's name now for `fenced`. Or the bound: the largest time allowed now
    for `too_far_ahead`, the largest offsets allowed now for `implausible_position`, the number of
    them for `too_many_segments` (of one writer or the stream) and `too_many_writers`, the first ten
    domains that the writer vouches for where the note's is `not_vouched`. It is `None` for
    `unknown_domain`, `unknown_writer`, and `sealed`: the stream takes no more notes. `beyond` says
    which time is `too_far_ahead`.
    """

    status: Literal[
        "invalid_time",
        "invalid_position",
        "implausible_position",
        "unknown_domain",
        "superseded",
        "fenced",
        "too_far_ahead",
        "too_many_segments",
        "too_many_writers",
        "unknown_writer",
        "not_vouched",
        "sealed",
    ]
    last: int | Mapping[int, int] | tuple[str, ...] | Session | None = None
    beyond: Beyond | None = None
