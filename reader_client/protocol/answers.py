"""Decodes the controller's answers to a reader.

An unexpected form raises `UnexpectedAnswer`, and no part of the answer is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, get_args

from noted_time.answers import Cause
from noted_time.client import MISREAD_ERRORS, Json, read_value
from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.progress import BacklogState, Reason
from noted_time.values import Mark, ScaleEvent, Succession, UnexpectedAnswer

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class StreamReply:
    """A stream, as far as readers need it."""

    id: str
    domains: tuple[str, ...]
    scale_events: tuple[ScaleEvent, ...]
    marks: Mapping[str, Mark | None]
    reader_timeout_ms: int
    max_time_ahead_ms: int | None = None
    logs: tuple[str, ...] = ()

    @cached_property
    def succession(self) -> Succession:
        succession = Succession()
        for event in self.scale_events:
            # The controller has checked the event against segments that the answer does not name.
            succession.scale(event, known=set(event.sealed))
        return succession

    @property
    def last_seqs(self) -> dict[str, int]:
        return {domain: last.seq if last else 0 for domain, last in self.marks.items()}

    @property
    def are_unix_ms(self) -> bool:
        return self.max_time_ahead_ms is not None


@dataclass(frozen=True, slots=True)
class GroupReply:
    """The position of a reader group, its online readers and its backlog."""

    position: Mapping[int, int]
    readers: Mapping[str, Mapping[int, int]]
    backlog: bool
    because: tuple[Cause, ...]
    since: int | None

    @property
    def state(self) -> BacklogState:
        reasons = {cause.reason for cause in self.because}
        because = tuple(reason for reason in get_args(Reason) if reason in reasons)
        return BacklogState(self.backlog, because, self.since)


def decode_answer(kind: Callable[..., Answer], wire: Json) -> Answer:
    """Decode an answer that is one of `noted_time.answers`, or a part of it.

    >>> from noted_time.answers import MarksAnswer
    >>> decode_answer(MarksAnswer, {"stream_id": "a"})
    Traceback (most recent call last):
        ...
    noted_time.UnexpectedAnswer: an answer of another shape (Rejected: a MarksAnswer without ...
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
def decode_sentences(wire: Json) -> tuple[str, ...]:
    """Decode the sentences of ``GET /streams/{stream}/explain``."""
    return tuple(parse_text(sentence) for sentence in wire["sentences"])


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
        # The controller has checked the event against segments that the answer does not contain.
        succession.scale(ScaleEvent(sealed, created), known=set(sealed))
    return succession
