"""Decodes a controller's answer to a post of notes, completely before any result is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from noted_time.client import (
    MISREAD_ERRORS,
    Reply,
    parse_int64,
    parse_text,
    position_from_wire,
    read_value,
)
from noted_time.values import (
    Accepted,
    Beyond,
    ExcludedSince,
    Note,
    NotesRefused,
    OtherLog,
    Refused,
    Session,
)


@dataclass(frozen=True, slots=True)
class FoundPosition:
    """The ends of a writer's segments, and the largest event times, by domain."""

    position: Mapping[int, int]
    max_times: Mapping[str | None, int]


@dataclass(frozen=True, slots=True)
class NotesReply:
    """The results of a post: one for each note, in order.

    For an unknown domain, `Refused.last` has the declared ones.
    """

    results: tuple[Accepted | Refused, ...]
    found: tuple[FoundPosition, ...] = ()
    declared: tuple[str, ...] = ()  # empty if unknown


def decode_reply(reply: Reply, count: int, stream: str) -> NotesReply:
    """Decode a reply to `count` notes, or raise the controller's problem."""
    body: Mapping[str, Any]
    try:
        body = reply.read_body(stream)
    except NotesRefused as refused:
        body = refused.answer
    try:
        return read_answer(body, count)
    except MISREAD_ERRORS as unknown:
        raise reply.build_error(f"{type(unknown).__name__}: {unknown}") from unknown


def read_answer(body: Mapping[str, Any], count: int) -> NotesReply:
    """Decode an answer, or raise one of `MISREAD_ERRORS`.

    >>> read_answer({"results": [{"status": "accepted", "lower": 7}]}, 1).results
    (Accepted(lower=7, exclusion=None, position=None, times=None, timeout_ms=None, took_over=None),)
    """
    results = body["results"]
    if len(results) != count:
        raise ValueError(f"{len(results)} results for {count} notes")
    domains = _decode_names(body.get("domains", []))
    return NotesReply(tuple(_decode_result(each, domains) for each in results), declared=domains)


def can_be_resent(note: Note, result: Refused, *, may_join: bool) -> bool:
    """Return whether a refused change of state can be sent in another form, or after a join."""
    if result.status == "unknown_domain":
        return isinstance(result.last, tuple) and result.last[:1] not in ((), (note.domain,))
    if result.status == "unknown_writer":
        return may_join
    return is_too_far_ahead(result)


def is_too_far_ahead(result: Accepted | Refused) -> bool:
    return isinstance(result, Refused) and result.status == "too_far_ahead"


def find_holder(answer: NotesReply) -> Session | None:
    last = (each.last for each in answer.results if isinstance(each, Refused))
    return next((each for each in last if isinstance(each, Session)), None)


def _decode_result(result: Mapping[str, Any], domains: tuple[str, ...]) -> Accepted | Refused:
    status = result["status"]
    if status == "accepted":
        return _decode_accepted(result)
    if status == "unknown_domain":
        return Refused(status, domains)
    if status == "another_log":
        return Refused(status, read_value(OtherLog, result))
    if status not in _LAST_DECODERS:
        raise ValueError(f"status {status!r:.80}")
    is_beyond = status == "too_far_ahead"
    beyond = read_value(Beyond, result) if is_beyond else None
    return Refused(status, _LAST_DECODERS[status](result["last"]), beyond)


def _decode_accepted(result: Mapping[str, Any]) -> Accepted:
    def decode_field(name: str, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - the type that `read` returns
        value = result.get(name)
        return None if value is None else read(value)

    lower = result["lower"]
    return Accepted(
        None if lower is None else parse_int64(lower),
        decode_field("excluded", partial(read_value, ExcludedSince)),
        decode_field("position", position_from_wire),
        decode_field(
            "times", lambda it: {domain: parse_int64(time) for domain, time in it.items()}
        ),
        decode_field("timeout_ms", parse_int64),
        decode_field("took_over", _decode_names),
    )


def _decode_names(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - checked here
    if not isinstance(value, list):
        raise TypeError(f"names {value!r:.80}")
    return tuple(parse_text(name) for name in value)


def _decode_session(session: Any) -> Session:  # noqa: ANN401 - checked here
    return Session(
        parse_text(session["session"]), parse_text(session["label"]), parse_int64(session["since"])
    )


_LAST_DECODERS: Mapping[
    str, Callable[[Any], int | Mapping[int, int] | tuple[str, ...] | Session | None]
]
_LAST_DECODERS = {
    "invalid_time": parse_int64,
    "invalid_position": position_from_wire,
    "implausible_position": position_from_wire,
    "superseded": parse_int64,
    "too_far_ahead": parse_int64,
    "too_many_segments": parse_int64,
    "too_many_writers": parse_int64,
    "unknown_writer": lambda _: None,
    "not_vouched": _decode_names,
    "sealed": lambda _: None,
    "fenced": _decode_session,
}
