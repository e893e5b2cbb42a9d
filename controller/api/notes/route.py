"""The route for notes, served without FastAPI to save 50 µs a request."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.aggregation.owned_streams import NotOwner
from controller.api.gate import audit
from controller.api.gate.admitted import Call
from controller.api.gate.audit import Attempt
from controller.api.notes.body import decode, find_note_faults
from controller.api.wire.problems import build_invalid_request, build_problem, refusal_of
from controller.api.wire.responses import Answer
from controller.service.controller import Controller
from noted_time.answers import RefusedAnswer
from noted_time.values import (
    SEGMENTS_PER_POSITION,
    Accepted,
    Note,
    NotedTimeError,
    OtherLog,
    ProblemKind,
    Refused,
    Session,
)

Results = list[Accepted | Refused]
Runs = list[tuple[Accepted | Refused, int]]

_encoder = msgspec.json.Encoder()

INVALID_STATUS = 422
UNKNOWN_DOMAIN = Refused("unknown_domain")

REQUEST_FAILURES = (NotedTimeError, NotOwner)


class ForeignWriter(NotedTimeError):
    """The token may not note for this writer, so the whole request is refused."""

    kind = ProblemKind("foreign_writer", 403, {"writer": ""})

    def __init__(self, writer: str) -> None:
        super().__init__(f"this token may not note for writer {writer!r}")
        self.writer = writer


def submit_notes(
    controller: Controller, call: Call, body: bytes, *, is_brief: bool = False
) -> Future[Results] | Answer:
    """Start to note. If `is_brief`, a faulty body is answered by its first fault."""
    try:
        notes = decode(body)
        _check_writers(call, notes)
        return controller.note(call.stream, notes)
    except msgspec.ValidationError as first:
        return _refuse_body(b"" if is_brief else body, first)
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        return _refuse_json(failure)
    except REQUEST_FAILURES as failure:
        return refusal_of(failure)


async def answer_submitted(
    controller: Controller, stream: str, pending_answer: Future[Results] | Answer
) -> Answer:
    """Return the result of each note, or `NOT_MINE` if another controller owns the stream."""
    if isinstance(pending_answer, Answer):
        return pending_answer
    try:
        return _answer(controller, stream, await pending_answer)
    except REQUEST_FAILURES as failure:
        return refusal_of(failure)


def explain_faults(answer: Answer, body: bytes) -> Answer:
    """Replace the brief answer of a stream's owner to a faulty body by all faults."""
    if answer.status == INVALID_STATUS:
        try:
            decode(body)
        except msgspec.ValidationError as first:
            return _refuse_body(body, first)
    return answer


def _refuse_body(body: bytes, first: msgspec.ValidationError) -> Answer:
    try:
        return build_invalid_request(find_note_faults(body, first))
    except UnicodeDecodeError as failure:  # behind the first fault
        return _refuse_json(failure)


def _refuse_json(failure: Exception) -> Answer:
    return build_problem(400, "malformed_json", f"body: {failure}")


def _answer(controller: Controller, stream: str, results: Results) -> Answer:
    first = results[0]
    if len(results) == 1 and type(first) is Accepted and first.says_only_lower:
        controller.count_notes(((first, 1),))
        return _encode_accepted(first.lower)
    runs = [(result, len(list(alike))) for result, alike in groupby(results)]
    refused_count = controller.count_notes(runs)
    encoded_results = b"[%b]" % b",".join(_encode_results(runs))
    names_domains = any(_concerns_domains(result) for result, _ in runs)
    if not (refused_count or names_domains):
        return _encode_all_accepted(encoded_results)
    facts: dict[str, Any] = {"refused": refused_count, "results": msgspec.Raw(encoded_results)}
    if names_domains:
        facts["domains"] = controller.stream(stream).settings.domains
    if refused_count < len(results):
        return Answer.of(200, _encoder.encode(facts))
    return build_problem(422, "notes_refused", _describe_refusals(runs), **facts)


@lru_cache(maxsize=16)
def _encode_accepted(lower: int | None) -> Answer:
    """Keep the answer, which is the same until the next mark."""
    return _encode_all_accepted(_encoder.encode([{"status": "accepted", "lower": lower}]))


def _encode_all_accepted(results: bytes) -> Answer:
    return Answer.of(200, b'{"refused":0,"results":%b}' % results)


def _concerns_domains(result: Accepted | Refused) -> bool:
    if type(result) is Accepted:
        return result.timeout_ms is not None
    return result == UNKNOWN_DOMAIN


def _describe_refusals(runs: Runs) -> str:
    counts = Counter[str]()
    detail = ""
    for result, count in runs:
        if isinstance(result, Refused):
            counts[result.status] += count
            detail = detail or result.detail or ""
    why = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"no note was accepted: {why}{detail and f'; {detail}'}"


def _encode_results(runs: Runs) -> Iterator[bytes]:
    """Limit positions and times of joining writers to the size of one request."""
    room = SEGMENTS_PER_POSITION
    for result, count in runs:
        answer = build_result(result)
        if isinstance(answer, Accepted) and answer.position is not None:
            room -= count * (len(answer.position) + len(answer.times or {}))
            if room < 0:
                answer = replace(answer, position=None, times=None)
        yield b",".join([_encoder.encode(answer)] * count)


def build_result(result: Accepted | Refused) -> Accepted | RefusedAnswer:
    if isinstance(result, Accepted):
        return result
    last = result.last
    status = result.status
    if isinstance(last, OtherLog):
        return RefusedAnswer(status=status, last=None, known=last.known, given=last.given)
    current = last.current if isinstance(last, Session) else last
    if (beyond := result.beyond) is None:
        return RefusedAnswer(status=status, last=current)
    return RefusedAnswer(
        status=status, last=current, field=beyond.field, time=beyond.time, detail=result.detail
    )


def _check_writers(call: Call, notes: Iterable[Note]) -> None:
    grant = call.holder.grant
    if not grant.is_bound():
        return
    foreign = grant.find_foreign(note.writer for note in notes)
    if foreign is not None:
        attempt = Attempt(f"note for {foreign}", call.stream, call.remote)
        audit.record_refusal(attempt, "forbidden", call.holder)
        raise ForeignWriter(foreign)
