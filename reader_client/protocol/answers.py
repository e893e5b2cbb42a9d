"""The controller's answers to a reader, each read whole before any of it is used.

An answer of another shape raises `UnexpectedAnswer`: none of it was used, and the question may be
asked again.
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
class StreamAnswer:
    """A stream: its creation id, domains, scale events, and the seq of each domain's last mark.

    `reader_timeout_ms` is how long a reader of a group may be silent; `are_unix_ms` says that times
    are Unix ms, which the controller judges by its clock. `logs` are the ids of the logs that
    positions are of, empty if none is known.
    """

    id: str
    domains: tuple[str, ...]
    succession: Succession
    scale_events: int
    last_seqs: dict[str, int]
    reader_timeout_ms: int
    are_unix_ms: bool = False
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarksAnswer:
    """Marks in the order of their seq, of that stream and the number of its scale events.

    `final_cut` is where a sealed stream ends, `None` while it is open. `is_quiet` says that no
    writer was waited for, `is_ahead` that the stream's last mark is before those asked for. `logs`
    are the ids of the logs that cuts are of.
    """

    stream_id: str
    scale_events: int
    marks: tuple[Mark, ...]
    final_cut: Mapping[int, int] | None = None
    is_quiet: bool = False
    is_ahead: bool = False
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The first mark that is complete to a time, the writers that are missing at it, and late rows.

    `before_first_mark`: the time is below the first mark there ever was. `vouched` says by whom it
    is complete, and `unmet` which writers are required in vain.
    """

    mark: Mark
    missing: Missing
    late: Late
    before_first_mark: bool
    vouched: VouchedBy
    unmet: tuple[NotVouching, ...]


@dataclass(frozen=True, slots=True)
class WindowsAnswer:
    """Complete windows in order, and the ids of the logs that their cuts are of.

    `next` is where the next answer begins, `None` after the last one. If `are_known` is false,
    other windows may have changed, too.
    """

    windows: tuple[CompleteWindow, ...]
    logs: tuple[str, ...] = ()
    next: int | None = None
    are_known: bool = True


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The position of a reader group, its readers that are online, and whether it has a backlog."""

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
def decode_stream(wire: Json) -> StreamAnswer:
    """Read the answer of ``GET /streams/{stream}``."""
    events = wire["scale_events"]
    return StreamAnswer(
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
    """Read the answer of ``GET /streams/{stream}/marks``.

    >>> decode_marks({"stream_id": "a", "scale_events": 0, "marks": [{"seq": 1}]})
    Traceback (most recent call last):
        ...
    noted_time.UnexpectedAnswer: an answer of another shape (Rejected: a mark without ...
    """
    marks = tuple(mark_from_wire(mark) for mark in wire["marks"])
    final_cut = position_from_wire(wire["final_cut"]) if wire["sealed"] else None
    stream_id, events = parse_text(wire["stream_id"]), parse_int64(wire["scale_events"])
    quiet, ahead = wire["quiet"] is True, wire["ahead_of_stream"] is True
    return MarksAnswer(stream_id, events, marks, final_cut, quiet, ahead, _decode_logs(wire))


@_read_whole
def decode_cut(wire: Json) -> CutAnswer:
    """Read the answer of ``GET /streams/{stream}/cut``."""
    return CutAnswer(
        mark_from_wire(wire),
        missing_from_wire(wire),
        late_from_wire(wire),
        wire["before_first_mark"] is True,
        vouching_from_wire(wire),
        not_vouching_from_wire(wire, "unmet"),
    )


@_read_whole
def decode_windows(wire: Json) -> WindowsAnswer:
    """Read the answer of ``GET /streams/{stream}/windows``."""
    windows = tuple(complete_window_from_wire(window) for window in wire["windows"])
    further = parse_int64(wire["next"]) if wire["has_more"] else None
    return WindowsAnswer(windows, _decode_logs(wire), further, wire["changes_are_known"] is True)


@_read_whole
def decode_group(wire: Json) -> GroupAnswer:
    """Read the answer of ``GET …/reader-groups/{group}``, which reports have as well."""
    readers = frozenset(parse_text(reader) for reader in wire["readers"])
    return GroupAnswer(position_from_wire(wire["position"]), readers, _decode_backlog(wire))


def _decode_logs(wire: Json) -> tuple[str, ...]:
    return tuple(parse_text(log) for log in wire["logs"])


def _decode_backlog(wire: Json) -> BacklogState:
    """Read the backlog; reasons unknown to this client count as well."""
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
        # The controller has checked it; what it knew of the segments then is not in the answer.
        succession.scale(ScaleEvent(sealed, created), known=set(sealed))
    return succession
