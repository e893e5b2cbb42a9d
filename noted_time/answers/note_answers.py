"""The answers to notes, and the problem document of a refused request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from noted_time.json_types import AnyOf, Offsets
from noted_time.values import ExcludedSince, HeldName, RefusedStatus


class ExcludedAnswer(ExcludedSince, frozen=True, kw_only=True):
    """Why the watermark advanced without the writer, and since when (Unix ms).

    Rows that the writer writes below `lower` are late. The exclusion ends once the writer has
    returned and noted a time above the lower.
    """

    lower: int | None


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
    excluded: ExcludedAnswer | None = None
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
