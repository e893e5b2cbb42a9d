"""Decodes a controller's answer to a post of notes, completely before any result is applied."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import Raw, Struct

from noted_time.client import Reply
from noted_time.coding import DECODE_ERRORS, build_decoder
from noted_time.values import (
    Accepted,
    Beyond,
    CurrentSession,
    Int64,
    Note,
    NotesRefused,
    Offset,
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

    For an unknown domain, `Refused.last` has the declared ones. `contact_refusal` is set if the
    notes were accepted only without their contact.
    """

    results: tuple[Accepted | Refused, ...]
    found: tuple[FoundPosition, ...] = ()
    declared: tuple[str, ...] = ()  # empty if unknown
    contact_refusal: str | None = None


class _Results(Struct, frozen=True):
    results: tuple[Raw, ...]
    domains: tuple[str, ...] = ()


class _Result(Struct, frozen=True):
    status: str
    last: Raw = Raw(b"null")


def decode_reply(reply: Reply, count: int, stream: str) -> NotesReply:
    """Decode a reply to `count` notes, or raise the controller's problem."""
    with suppress(NotesRefused):
        reply.check(stream)
    try:
        return read_answer(reply.content, count)
    except DECODE_ERRORS as odd:
        raise reply.build_error(str(odd)) from odd


def read_answer(content: bytes, count: int) -> NotesReply:
    """Decode an answer, or raise one of `DECODE_ERRORS`.

    >>> read_answer(b'{"results": [{"status": "accepted", "lower": 7}]}', 1).results
    (Accepted(lower=7, exclusion=None, position=None, times=None, timeout_ms=None, took_over=None),)
    """
    answer: _Results = build_decoder(_Results).decode(content)
    if len(answer.results) != count:
        raise ValueError(f"{len(answer.results)} results for {count} notes")
    results = tuple(_decode_result(raw_result, answer.domains) for raw_result in answer.results)
    return NotesReply(results, declared=answer.domains)


def can_be_resent(note: Note, result: Refused, *, may_join: bool) -> bool:
    """Return whether a refused change of state can be sent in another form, or after a join."""
    if result.status == "unknown_domain":
        return isinstance(result.last, tuple) and result.last[:1] not in ((), (note.domain,))
    if result.status == "unknown_writer":
        return may_join
    return is_too_far_ahead(result)


def is_too_far_ahead(result: Accepted | Refused) -> bool:
    return isinstance(result, Refused) and result.status == "too_far_ahead"


def find_current_session(answer: NotesReply) -> Session | None:
    """Return the session that has the writer's name now, if the notes are of an earlier one."""
    for result in answer.results:
        if isinstance(result, Refused) and isinstance(result.last, Session):
            return result.last
    return None


def _decode_result(content: Raw, domains: tuple[str, ...]) -> Accepted | Refused:
    result: _Result = build_decoder(_Result).decode(content)
    status: Any = result.status
    if status == "accepted":
        acceptance: Accepted = build_decoder(Accepted).decode(content)
        return acceptance
    if status == "unknown_domain":
        return Refused(status, domains)
    if status == "another_log":
        return Refused(status, build_decoder(OtherLog).decode(content))
    if status not in _TYPES_OF_LAST:
        raise ValueError(f"status {status!r:.80}")
    last = build_decoder(_TYPES_OF_LAST[status]).decode(result.last)
    if isinstance(last, CurrentSession):
        last = Session(last.session, last.label, last.began_at)
    if status in {"too_far_ahead", "implausible_time"}:
        return Refused(status, last, build_decoder(Beyond).decode(content))
    return Refused(status, last, None)


_TYPES_OF_LAST: Mapping[str, Any] = {
    "invalid_time": Int64,
    "invalid_position": Mapping[Offset, Offset],
    "implausible_position": Mapping[Offset, Offset],
    "implausible_time": None,
    "superseded": Int64,
    "too_far_ahead": Int64,
    "too_many_segments": Int64,
    "too_many_writers": Int64,
    "unknown_writer": None,
    "not_vouched": tuple[str, ...],
    "sealed": None,
    "fenced": CurrentSession,
}
