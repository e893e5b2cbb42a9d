"""Decodes the controller's answers to a reader.

An unexpected form raises `UnexpectedAnswer`, and no part of the answer is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, get_args

from noted_time.answers import CompleteWindowsPage, CutAnswer, MarksAnswer
from noted_time.client import (
    MISREAD_ERRORS,
    Json,
    parse_flag,
    parse_int64,
    parse_text,
    position_from_wire,
    read_value,
)
from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.progress import UNKNOWN_BACKLOG, BacklogState, Reason
from noted_time.values import ScaleEvent, Succession, UnexpectedAnswer

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
def decode_marks(wire: Json) -> MarksAnswer:
    """Decode the answer of ``GET /streams/{stream}/marks``.

    >>> decode_marks({"stream_id": "a"})
    Traceback (most recent call last):
        ...
    noted_time.UnexpectedAnswer: an answer of another shape (Rejected: a MarksAnswer without ...
    """
    return read_value(MarksAnswer, wire)


@_read_whole
def decode_cut(wire: Json) -> CutAnswer:
    return read_value(CutAnswer, wire)


@_read_whole
def decode_windows(wire: Json) -> CompleteWindowsPage:
    return read_value(CompleteWindowsPage, wire)


@_read_whole
def decode_group(wire: Json) -> GroupReply:
    readers = frozenset(parse_text(reader) for reader in wire["readers"])
    return GroupReply(position_from_wire(wire["position"]), readers, _decode_backlog(wire))


def _decode_logs(wire: Json) -> tuple[str, ...]:
    return tuple(parse_text(log) for log in wire["logs"])


def _decode_backlog(wire: Json) -> BacklogState:
    backlog, since = parse_flag(wire["backlog"]), wire["since"]
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
