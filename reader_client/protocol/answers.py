"""Decodes the controller's answers to a reader.

An unexpected form raises `UnexpectedAnswer`, and no part of the answer is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, get_args

from noted_time.client import (
    MISREAD_ERRORS,
    Json,
    complete_window_from_wire,
    late_from_wire,
    mark_from_wire,
    missing_from_wire,
    not_vouching_from_wire,
    parse_int64,
    parse_text,
    position_from_wire,
    vouching_from_wire,
)
from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.progress import UNKNOWN_BACKLOG, BacklogState, Reason
from noted_time.reading import CompleteWindow
from noted_time.values import (
    Late,
    Mark,
    Missing,
    NotVouching,
    ScaleEvent,
    Succession,
    UnexpectedAnswer,
    VouchedBy,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class StreamReply:
    """A stream."""

    id: str

    domains: tuple[str, ...]
    succession: Succession
    scale_events: int
    last_seqs: dict[str, int]
    reader_timeout_ms: int

    are_unix_ms: bool = False
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarksReply:
    """Marks of a stream, in order of their seq."""

    stream_id: str
    scale_events: int
    marks: tuple[Mark, ...]
    final_cut: Mapping[int, int] | None = None

    is_quiet: bool = False

    is_ahead: bool = False
    """Whether the question's seq is above the last mark."""

    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CutReply:
    """The first mark that is complete to a time, with missing writers and late rows."""

    mark: Mark
    missing: Missing
    late: Late
    before_first_mark: bool

    vouched: VouchedBy
    unmet: tuple[NotVouching, ...]


@dataclass(frozen=True, slots=True)
class WindowsReply:
    """Complete windows, in order."""

    windows: tuple[CompleteWindow, ...]
    logs: tuple[str, ...] = ()
    next: int | None = None

    are_known: bool = True
    """False if other windows may have changed, too."""


@dataclass(frozen=True, slots=True)
class GroupReply:
    """The position of a reader group, its online readers and its backlog."""

    position: dict[int, int]
    readers: frozenset[str]
    backlog: BacklogState = UNKNOWN_BACKLOG


def _read_whole(read: Callable[[Json], Answer]) -> Callable[[Json], Answer]:
    @wraps(read)
    def decode(wire: Json) -> Answer:
        try:
            return read(wire)
        except MISREAD_ERRORS as error:
            why = f"{type(error).__name__}: {error}"
            message = f"an answer of another shape ({why}): {str(wire)[:SHOWN_CHARACTERS]}"
            raise UnexpectedAnswer(message) from error

    return decode


@_read_whole
def decode_stream(wire: Json) -> StreamReply:
    events = wire["scale_events"]
    return StreamReply(
        id=parse_text(wire["id"]),
        domains=tuple(parse_text(domain) for domain in wire["domains"]),
        succession=_decode_succession(events),
        scale_events=len(events),
        last_seqs={
            domain: parse_int64(last["seq"]) if last else 0
            for domain, last in wire["marks"].items()
        },
        reader_timeout_ms=parse_int64(wire["reader_timeout_ms"]),
        are_unix_ms=wire["max_time_ahead_ms"] is not None,
        logs=_decode_logs(wire),
    )


@_read_whole
def decode_marks(wire: Json) -> MarksReply:
    """Decode the answer of ``GET /streams/{stream}/marks``.

    >>> decode_marks({"stream_id": "a", "scale_events": 0, "marks": [{"seq": 1}]})
    Traceback (most recent call last):
        ...
    noted_time.UnexpectedAnswer: an answer of another shape (Rejected: a mark without ...
    """
    marks = tuple(mark_from_wire(mark) for mark in wire["marks"])
    final_cut = position_from_wire(wire["final_cut"]) if wire["sealed"] else None
    stream_id, events = parse_text(wire["stream_id"]), parse_int64(wire["scale_events"])
    quiet, ahead = wire["quiet"] is True, wire["ahead_of_stream"] is True
    return MarksReply(stream_id, events, marks, final_cut, quiet, ahead, _decode_logs(wire))


@_read_whole
def decode_cut(wire: Json) -> CutReply:
    return CutReply(
        mark_from_wire(wire),
        missing_from_wire(wire),
        late_from_wire(wire),
        wire["before_first_mark"] is True,
        vouching_from_wire(wire),
        not_vouching_from_wire(wire, "unmet"),
    )


@_read_whole
def decode_windows(wire: Json) -> WindowsReply:
    windows = tuple(complete_window_from_wire(window) for window in wire["windows"])
    after = parse_int64(wire["next"]) if wire["has_more"] else None
    return WindowsReply(windows, _decode_logs(wire), after, wire["changes_are_known"] is True)


@_read_whole
def decode_group(wire: Json) -> GroupReply:
    readers = frozenset(parse_text(reader) for reader in wire["readers"])
    return GroupReply(position_from_wire(wire["position"]), readers, _decode_backlog(wire))


def _decode_logs(wire: Json) -> tuple[str, ...]:
    return tuple(parse_text(log) for log in wire["logs"])


def _decode_backlog(wire: Json) -> BacklogState:
    backlog, since = wire["backlog"], wire["since"]
    if not isinstance(backlog, bool):
        raise TypeError(f"{str(backlog)[:SHOWN_CHARACTERS]!r} is neither true nor false")
    reasons = {cause["reason"] for cause in wire["because"]}
    because = tuple(reason for reason in get_args(Reason) if reason in reasons)
    return BacklogState(backlog, because, None if since is None else parse_int64(since))


def _decode_succession(events: list[Json]) -> Succession:
    succession = Succession()
    for event in events:
        sealed = position_from_wire(event["sealed"])
        created = {int(s): tuple(before) for s, before in event["created"].items()}
        # The controller has checked the event against segments that the answer lacks.
        succession.scale(ScaleEvent(sealed, created), known=set(sealed))
    return succession
