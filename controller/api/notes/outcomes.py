"""What became of notes, as it is answered, and the problem of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from noted_time import Accepted, Refused
from noted_time.values import ExcludedSince, HeldName, OtherLog, RefusedStatus, Session


@dataclass(frozen=True)
class ExcludedAnswer(ExcludedSince):
    """Why the watermark advanced without the writer, and since when in Unix ms.

    It ends when the writer, having returned, has noted a time above the lower. What it writes below
    `lower` is late.
    """

    lower: int | None


class AcceptedAnswer(msgspec.Struct, omit_defaults=True):
    """The note is durable; `lower` is the last mark's: what lies below is already late.

    `excluded` is present while the watermark advances without the writer. If it joined by this
    note, `timeout_ms` is the timeout in force, its own or the stream's; `position` and `times` (the
    last by domain) are those known of the writer, if it named a position before. `took_over` are
    the sessions that lost the name, if this note takes it over.
    """

    status: Literal["accepted"]
    lower: int | None
    excluded: ExcludedAnswer | None = None
    position: Mapping[int, int] | None = None
    times: Mapping[str, int] | None = None
    timeout_ms: int | None = None
    took_over: Sequence[str] | None = None


class RefusedAnswer(msgspec.Struct, omit_defaults=True):
    """The note changed nothing; `last` says what it contradicts.

    It falls behind `last`, the offsets of segments (`invalid_position`), or the writer's last time
    or sequence (`invalid_time`, `superseded`). It goes beyond the bound `last`: offsets
    (`implausible_position`, or `invalid_position` at the end of a sealed segment), the number of
    segments or writers (`too_many_segments`, `too_many_writers`), or a time (`too_far_ahead`).
    `not_vouched`: the writer vouches for the domains `last`. `fenced`: the process `last` took its
    name over. `unknown_domain`, `unknown_writer`, `sealed`: null. `another_log`: null, and the
    stream has the positions of log `known`, not of the one `given`.

    A time that is `too_far_ahead` is the `time` of `field`, which is `time`, `max_time`, or
    `max_times.` and the domain; `detail` says how far, and in which unit it may be.
    """

    status: RefusedStatus
    last: int | Mapping[int, int] | Sequence[str] | HeldName | None
    field: str | None = None
    time: int | None = None
    detail: str | None = None
    known: str | None = None
    given: str | None = None


def build_answer(result: Accepted | Refused) -> AcceptedAnswer | RefusedAnswer:
    """Return the answer to a note."""
    if isinstance(result, Refused):
        last = result.last.held if isinstance(result.last, Session) else result.last
        beyond = result.beyond
        if isinstance(last, OtherLog):
            return RefusedAnswer(result.status, None, known=last.known, given=last.given)
        if beyond is None:
            return RefusedAnswer(result.status, last)
        return RefusedAnswer(result.status, last, beyond.field, beyond.time, result.detail)
    lower, out, position = result.lower, result.exclusion, result.position
    excluded = None if out is None else ExcludedAnswer(out.reason, out.since, lower)
    times = None if position is None else result.times or {}
    timeout_ms, took_over = result.timeout_ms, result.took_over
    return AcceptedAnswer("accepted", lower, excluded, position, times, timeout_ms, took_over)


class NotesAnswer(msgspec.Struct, omit_defaults=True):
    """What became of each note, in order, and how many were refused.

    `domains` are those that the stream declares, if a note joined or was of another.
    """

    refused: int
    results: Sequence[AcceptedAnswer | RefusedAnswer]
    domains: Sequence[str] | None = None


class Problem(msgspec.Struct):
    """An RFC 9457 problem document; `code` is the kind."""

    type: str
    title: str
    status: int
    code: str
    detail: str
