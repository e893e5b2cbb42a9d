"""The answers to notes, and the problem document of a refused request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from noted_time.json_types import AnyOf, Offsets
from noted_time.values import Accepted, CurrentSession, RefusedStatus


class RefusedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note changed nothing. `last` is the value that the note contradicts.

    - `invalid_position`: the position is below the offsets `last`, or above the end of a sealed
      segment.
    - `invalid_time`, `superseded`: the time or sequence is below the writer's last one.
    - `implausible_position`: the position is above the bounds `last`.
    - `implausible_time`: `time` seems to be in seconds, as `detail` says. `last` is null.
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
    last: AnyOf[int, Offsets, Sequence[str], CurrentSession, None]
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
    results: Sequence[AnyOf[Accepted, RefusedAnswer]]
    domains: Sequence[str] | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """An RFC 9457 problem document. `code` is the kind of problem."""

    type: str
    title: str
    status: int
    code: str
    detail: str
