"""The answers to notes, and the problem document of a refused request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from noted_time.json_types import AnyOf, Offsets
from noted_time.values import Accepted, ExcludedSince, HeldName, RefusedStatus, format_time

_EXCLUSION_REASONS = {
    "timed_out": (
        "it was silent for its timeout",
        "note more often, call idle() while nothing is written, or give the client a timeout_ms",
    ),
    "removed": ("an operator removed it", "the ledger of the stream says who"),
    "returned_late": (
        "it came back after the watermark had passed its time",
        "join before the first write, or have the stream expect the writer (expected_writers)",
    ),
}  # what happened, and how to avoid it


class Exclusion(ExcludedSince, frozen=True, kw_only=True):
    """Why the watermark advanced without the writer, and since when (Unix ms).

    Rows that the writer writes below `lower` are late. The exclusion ends once the writer has
    returned and noted a time above the lower.
    """

    lower: int | None

    @classmethod
    def of(cls, result: Accepted) -> Exclusion | None:
        """Return the exclusion in an answer, if any."""
        exclusion = result.exclusion
        return (
            None
            if exclusion is None
            else cls(exclusion.reason, exclusion.since, lower=result.lower)
        )

    @property
    def sentence(self) -> str:
        """An explanation with the remedy, to follow the writer's name.

        >>> Exclusion("timed_out", since=1357041600000, lower=90).sentence[:81]
        'the watermark has been advancing without it since 2013-01-01T12:00:00Z (timed_out'
        """
        happened, remedy = _EXCLUSION_REASONS.get(
            self.reason, ("see explain", "see explain of the stream")
        )
        return (
            f"the watermark has been advancing without it since {format_time(self.since)} "
            f"({self.reason}: {happened}), "
            f"so rows that it writes below {format_time(self.lower)} are late until it has noted "
            f"a time above that; to avoid it, {remedy}"
        )


class AcceptedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note is durable. `lower` is the last mark's lower: rows below it are late.

    - `excluded` is present while the watermark advances without the writer.
    - `timeout_ms` is present if the writer joined by this note. It is the writer's own timeout, or
      else the stream's.
    - `position` and `times` are present if the writer joined and had noted a position before. They
      are its last known position, and its last time by domain.
    - `took_over` are the sessions that lost the name to this session.
    """

    status: Literal["accepted"]
    lower: int | None
    excluded: Exclusion | None = None
    position: Offsets | None = None
    times: Mapping[str, int] | None = None
    timeout_ms: int | None = None
    took_over: Sequence[str] | None = None


class RefusedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note changed nothing. `last` is the value that the note contradicts.

    - `invalid_position`: the position is below the offsets `last`, or above the end of a sealed
      segment.
    - `invalid_time`, `superseded`: the time or sequence is below the writer's last one.
    - `implausible_position`: the position is above the bounds `last`.
    - `too_many_segments`, `too_many_writers`: `last` is the maximum number.
    - `too_far_ahead`: `last` is the largest time that is allowed. `time` is the time that is above
      it. `field` is `time`, `max_time`, or `max_times.` and the domain. `detail` contains the
      distance and the likely unit.
    - `not_vouched`: the writer vouches only for the domains `last`.
    - `fenced`: the session `last` took over the writer's name.
    - `unknown_domain`, `unknown_writer`, `sealed`: `last` is null.
    - `another_log`: `last` is null. The positions of the stream are in the log `known`, not in the
      log `given`.
    """

    status: RefusedStatus
    last: AnyOf[int, Offsets, Sequence[str], HeldName, None]
    field: str | None = None
    time: int | None = None
    detail: str | None = None
    known: str | None = None
    given: str | None = None


class NotesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of each note, in order, and the number of refused notes.

    `domains` are the stream's domains. They are present if a writer joined or noted an unknown
    domain.
    """

    refused: int
    results: Sequence[AnyOf[AcceptedAnswer, RefusedAnswer]]
    domains: Sequence[str] | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """An RFC 9457 problem document. `code` is the kind of problem."""

    type: str
    title: str
    status: int
    code: str
    detail: str
