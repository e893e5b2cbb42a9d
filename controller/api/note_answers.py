"""What became of notes, and the problem of a request: only for OpenAPI, as `notes` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from noted_time.values import ExcludedSince, HeldName


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


class InvalidPosition(msgspec.Struct):
    """The note goes back in these segments, or beyond the end of a sealed one, or too far ahead.

    `last` are the offsets that it fell behind, the ends of segments, or the largest taken now.
    """

    status: Literal["invalid_position", "implausible_position"]
    last: Mapping[int, int]


class NotVouched(msgspec.Struct):
    """The writer does not vouch for the note's domain; `last` are those it does."""

    status: Literal["not_vouched"]
    last: Sequence[str]


class NothingKnown(msgspec.Struct):
    """The domain is not declared, the writer noted as done is unknown, or the stream is sealed."""

    status: Literal["unknown_domain", "unknown_writer", "sealed"]
    last: None


class BehindOrBeyond(msgspec.Struct):
    """The note falls behind, or goes beyond a bound of the stream.

    `last` is the writer's last time or sequence, or how many segments or writers there may be.
    """

    status: Literal["invalid_time", "superseded", "too_many_segments", "too_many_writers"]
    last: int


class TooFarAhead(msgspec.Struct):
    """A time of the note is beyond the largest that is allowed now, `last`.

    `field` says which: `time`, `max_time`, or `max_times.` and the domain; `detail` how far, and in
    which unit it may be.
    """

    status: Literal["too_far_ahead"]
    last: int
    field: str
    time: int
    detail: str


class NameTaken(msgspec.Struct):
    """Another process took the writer's name over: this one's notes are refused from then on."""

    status: Literal["fenced"]
    last: HeldName


Refusal = InvalidPosition | NotVouched | NothingKnown | BehindOrBeyond | TooFarAhead | NameTaken


class NotesAnswer(msgspec.Struct, omit_defaults=True):
    """What became of each note, in order, and how many were refused.

    `domains` are those that the stream declares, if a note joined or was of another.
    """

    refused: int
    results: Sequence[AcceptedAnswer | Refusal]
    domains: Sequence[str] | None = None


class Problem(msgspec.Struct):
    """An RFC 9457 problem document; `code` is the kind."""

    type: str
    title: str
    status: int
    code: str
    detail: str
