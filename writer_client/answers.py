"""What the answer to a post of notes says; nothing is changed before all of it is understood.

Only what the controller itself says counts. Everything else, such as a proxy's page, a redirect or
a result of a shape that is not known here, is no answer: the notes are kept and posted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noted_time.client import position_from_wire
from noted_time.values import Accepted, Beyond, Exclusion, NotesRefused, Refused, Rejected, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from noted_time.client import Reply
    from noted_time.values import Note


@dataclass(frozen=True, slots=True)
class Found:
    """Where the segments of a writer end, and the largest event times in them, by domain."""

    position: Mapping[int, int]
    max_times: Mapping[str | None, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """A result for each note, in order; `last` of an unknown domain are those declared.

    `found` is what was looked up in the log after they were accepted.
    """

    results: tuple[Accepted | Refused, ...]
    found: tuple[Found, ...] = ()


def answer_of(reply: Reply, count: int, stream: str) -> Answer:
    """Return what a reply to `count` notes says.

    Raises the controller's problem in words of the error tree, and `Unreachable` for everything
    that is not the controller's.
    """
    body: Mapping[str, Any]
    try:
        body = reply.body(stream)
    except NotesRefused as refused:
        body = refused.answer
    try:
        return read_answer(body, count)
    except (_Unknown, Rejected) as unknown:
        raise reply.unexpected(str(unknown)) from unknown


def read_answer(body: Mapping[str, Any], count: int) -> Answer:
    """Return the answer of a decoded body.

    >>> read_answer({"results": [{"status": "accepted", "lower": 7}]}, 1).results
    (Accepted(lower=7, exclusion=None, position=None, times=None, timeout_ms=None),)
    """
    results = _is(list, body.get("results"), "results")
    if len(results) != count:
        raise _Unknown(f"{len(results)} results for {count} notes")
    domains = _names(body.get("domains", []))
    return Answer(tuple(_result(_is(dict, each, "result"), domains) for each in results))


def can_be_said_otherwise(note: Note, result: Refused, *, may_join: bool) -> bool:
    """Whether a change of state was refused for what was only added to it, or left out, here.

    That is a largest event time, the domain, which a change of state does not have, or the join
    that a writer needs whom the controller does not know.
    """
    if result.status == "unknown_domain":
        return isinstance(result.last, tuple) and result.last[:1] not in ((), (note.domain,))
    if result.status == "unknown_writer":
        return may_join
    return is_too_far_ahead(result)


def is_too_far_ahead(result: Accepted | Refused) -> bool:
    """Whether a note was refused for its times alone."""
    return isinstance(result, Refused) and result.status == "too_far_ahead"


def holder(answer: Answer) -> Session | None:
    """Return the process that took the writer's name over, `None` where none did."""
    last = (each.last for each in answer.results if isinstance(each, Refused))
    return next((each for each in last if isinstance(each, Session)), None)


class _Unknown(Exception):
    """The answer has a shape that is not known here."""


def _result(result: Mapping[str, Any], domains: tuple[str, ...]) -> Accepted | Refused:
    status, last = result.get("status"), result.get("last")
    if status == "accepted":
        return _accepted(result)
    if status == "unknown_domain":
        return Refused(status, domains)
    if not isinstance(status, str) or status not in _LAST:
        raise _Unknown(f"status {status!r:.80}")
    beyond = _beyond(result) if status == "too_far_ahead" else None
    return Refused(status, _LAST[status](last), beyond)  # type: ignore[arg-type]  # one of those known


def _beyond(result: Mapping[str, Any]) -> Beyond | None:
    field = result.get("field")
    return None if field is None else Beyond(_is(str, field, "field"), _int(result.get("time")))


def _accepted(result: Mapping[str, Any]) -> Accepted:
    excluded, position = result.get("excluded"), result.get("position")
    times = result.get("times")
    return Accepted(
        _int_or_none(result.get("lower")),
        None if excluded is None else _exclusion(_is(dict, excluded, "excluded")),
        None if position is None else _position(position),
        None if times is None else _times(times),
        _int_or_none(result.get("timeout_ms")),
    )


def _exclusion(excluded: Mapping[str, Any]) -> Exclusion:
    return Exclusion(_is(str, excluded.get("reason"), "reason"), _int(excluded.get("since")))


def _is(kind: type, value: object, what: str) -> Any:  # noqa: ANN401 - of the kind asked for
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Unknown(f"{what} {value!r:.80}")
    return value


def _int(value: object) -> int:
    return int(_is(int, value, "number"))


def _int_or_none(value: object) -> int | None:
    return None if value is None else _int(value)


def _position(value: object) -> Mapping[int, int]:
    return position_from_wire(_is(dict, value, "position"))


def _times(value: object) -> Mapping[str, int]:
    return {domain: _int(time) for domain, time in _is(dict, value, "times").items()}


def _names(value: object) -> tuple[str, ...]:
    return tuple(_is(str, name, "domain") for name in _is(list, value, "domains"))


def _nothing(_: object) -> None:
    return None


def _session(value: object) -> Session:
    held = _is(dict, value, "session")
    session, label = held.get("session"), _is(str, held.get("label"), "label")
    return Session(session and _is(str, session, "session"), label, _int(held.get("since")))


_LAST: Mapping[str, Callable[[object], int | Mapping[int, int] | tuple[str, ...] | Session | None]]
_LAST = {
    "invalid_time": _int,
    "invalid_position": _position,
    "implausible_position": _position,
    "superseded": _int,
    "too_far_ahead": _int,
    "too_many_segments": _int,
    "too_many_writers": _int,
    "unknown_writer": _nothing,
    "not_vouched": _names,
    "sealed": _nothing,
    "fenced": _session,
}
"""How the `last` of each refusal is read."""
