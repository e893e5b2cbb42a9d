"""Notes in, results out: decoded by msgspec and answered in front of the FastAPI app.

FastAPI's route machinery costs about 50 µs a request and pydantic 9 µs a note, where the rest of a
durable note takes 20 to 30 µs of the core. pydantic says what is wrong with notes that do not fit.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from controller.aggregation.owned_streams import NotOwner
from controller.api.access import check_writers
from controller.api.answers import NOT_MINE, Answer
from controller.api.problems import (
    MUST_BE_A_LINE,
    MUST_BE_A_NAME,
    invalid_request,
    problem,
    problem_of,
    validation_errors,
)
from controller.api.shapes import LINE, MOST_DOMAINS, SEGMENTS, NotesBody
from controller.store.port import StoreUnavailable
from noted_time import Accepted, NotedTimeError, Refused
from noted_time.client import position_to_wire, session_to_wire
from noted_time.values import (
    LABEL_LENGTH,
    MAX_INT64,
    MAX_NOTES_PER_REQUEST,
    MIN_INT64,
    SEGMENTS_PER_POSITION,
    SESSION_LENGTH,
    UNCHANGED,
    Session,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Iterator

    from controller.api.access import Call
    from controller.service.controller import Controller

    Results = list[Accepted | Refused]
    Runs = list[tuple[Accepted | Refused, int]]

Name = Annotated[str, Meta(min_length=1, max_length=249)]
"""Its characters are checked by `decode`, of all notes at once."""

SessionId = Annotated[str, Meta(min_length=1, max_length=SESSION_LENGTH)]
"""The same."""

Label = Annotated[str, Meta(max_length=LABEL_LENGTH)]
Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
Number = Annotated[int, Meta(ge=1, le=MAX_INT64)]
Offset = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Segment = Annotated[int, Meta(ge=0, lt=SEGMENTS)]


class WireLate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Rows below the lower, as they come over the wire."""

    rows: Number
    least: Int64


class WireNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One note as it comes over the wire; the core takes it as it is."""

    writer: Name
    time: Int64 | None = None
    position: Annotated[dict[Segment, Offset], Meta(max_length=SEGMENTS_PER_POSITION)] = {}
    domain: Name | None = None
    max_time: Int64 | None = None
    max_times: Annotated[dict[Name, Int64], Meta(max_length=MOST_DOMAINS)] | None = None
    state: Literal["live", "idle", "finished"] = "live"
    sequence: Number | None = None
    domains: Annotated[list[Name], Meta(min_length=1, max_length=MOST_DOMAINS)] | None = None
    timeout_ms: Number | None = UNCHANGED
    late: WireLate | None = None
    session: SessionId | None = None
    takes_over: bool = False
    label: Label = ""


class NotesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The body: 1 to 1000 notes."""

    notes: Annotated[list[WireNote], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


_decoder = msgspec.json.Decoder(NotesRequest)
_encoder = msgspec.json.Encoder()

UNKNOWN_DOMAIN = Refused("unknown_domain")

_is_line = re.compile(LINE).fullmatch

DOTS = frozenset((".", ".."))
"""What is no name, as no path can have it as a part."""

EXPLAINED = 16 * 1024
"""Of a larger body only the first fault is said: to find all would take long."""

IN_NAMES = f"{ascii_letters}{digits}._-".encode()

FAILURES = (msgspec.DecodeError, UnicodeDecodeError, NotedTimeError, NotOwner, StoreUnavailable)
"""What refuses a request as a whole; a body that does not validate is a `DecodeError` too."""


def decode(body: bytes) -> list[WireNote]:
    """Return the notes of a body; raises `msgspec.DecodeError` or `UnicodeDecodeError`.

    A pattern for each name took more than all the rest.
    """
    notes = _decoder.decode(body).notes
    names = [note.writer for note in notes]
    names += [note.domain for note in notes if note.domain is not None]
    for note in notes:
        if note.domains is not None:
            names += note.domains
        if note.max_times is not None:
            names += note.max_times
    sessions = [note.session for note in notes if note.session is not None]
    if "".join(names + sessions).encode("ascii", "replace").translate(None, IN_NAMES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not DOTS.isdisjoint(names):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not _is_line("".join([note.label for note in notes])):
        raise msgspec.ValidationError(MUST_BE_A_LINE)
    return notes


def submit_notes(controller: Controller, call: Call, body: bytes) -> Future[Results] | Answer:
    """Begin to take the notes of one request, or refuse it."""
    try:
        notes = decode(body)
        check_writers(call, notes)
        return controller.note(call.stream, notes)
    except FAILURES as failure:
        return _refusal(failure, body)


async def answer_submitted(
    controller: Controller, stream: str, submitted: Future[Results] | Answer, body: bytes
) -> Answer:
    """Say what became of each note, or that another controller owns the stream by now."""
    if isinstance(submitted, Answer):
        return submitted
    try:
        return _answer(controller, stream, await submitted)
    except FAILURES as failure:
        return _refusal(failure, body)


async def answer_notes(controller: Controller, call: Call, body: bytes) -> Answer:
    """Take the notes of one request and say what became of each once they are durable."""
    return await answer_submitted(
        controller, call.stream, submit_notes(controller, call, body), body
    )


def _refusal(failure: Exception, body: bytes) -> Answer:
    """Say why the request was refused as a whole."""
    if isinstance(failure, msgspec.ValidationError):
        found = validation_errors(NotesBody, body) if len(body) <= EXPLAINED else []
        return invalid_request(found or [_first_fault(failure)])
    if isinstance(failure, msgspec.DecodeError | UnicodeDecodeError):
        return problem(400, "malformed_json", f"body: {failure}")
    return NOT_MINE if isinstance(failure, NotOwner) else problem_of(failure)


def _first_fault(failure: msgspec.ValidationError) -> tuple[str, str]:
    """Return where it is, and what; the decoder stops at the first."""
    what, _, path = str(failure).rstrip("`").partition(" - at `$")
    return "body" + path.replace("[...]", "").replace("[", ".").replace("]", ""), what


def _answer(controller: Controller, stream: str, results: Results) -> Answer:
    """Say what became of each note, and count it; most are alike, and so are done in runs.

    The domains that the stream declares are named once, however many notes were of another.
    """
    runs = [(result, len(list(alike))) for result, alike in groupby(results)]
    refused = controller.count_notes(runs)
    told = b"[%b]" % b",".join(_encoded(runs))
    if not refused:
        return Answer.of(200, b'{"refused":0,"results":%b}' % told)
    beside: dict[str, Any] = {"refused": refused, "results": msgspec.Raw(told)}
    if UNKNOWN_DOMAIN in (result for result, _ in runs):
        beside["domains"] = controller.stream(stream).settings.domains
    if refused < len(results):
        return Answer.of(200, _encoder.encode(beside))
    return problem(422, "notes_refused", _why(runs), **beside)


def _why(runs: Runs) -> str:
    """Say why no note of a request was accepted."""
    counts, far = Counter[str](), ""
    for result, n in runs:
        if isinstance(result, Refused):
            counts[result.status] += n
            far = far or _how_far(result)
    why = ", ".join(f"{n} {status}" for status, n in counts.items())
    return f"no note was accepted: {why}{far and f'; {far}'}"


def _how_far(refused: Refused) -> str:
    beyond, bound = refused.beyond, refused.last
    return beyond.sentence(bound) if beyond is not None and isinstance(bound, int) else ""


def _encoded(runs: Runs) -> Iterator[bytes]:
    """Yield the results as JSON; what joins are told while a request's own could be no larger.

    Else a small request of many joins would have an answer of many megabytes.
    """
    room = SEGMENTS_PER_POSITION
    for result, n in runs:
        wire = _result(result)
        if "position" in wire:
            room -= n * (len(wire["position"]) + len(wire["times"]))
            if room < 0:
                del wire["position"], wire["times"]
        yield b",".join([_encoder.encode(wire)] * n)


def _result(result: Accepted | Refused) -> dict[str, Any]:
    if isinstance(result, Accepted):
        return _accepted(result)
    last: object = result.last
    if isinstance(last, Session):
        last = session_to_wire(last)
    elif isinstance(last, dict):
        last = position_to_wire(last)
    wire: dict[str, Any] = {"status": result.status, "last": last}
    if result.beyond is not None:
        wire["field"], wire["time"] = result.beyond.field, result.beyond.time
        wire["detail"] = _how_far(result)
    return wire


def _accepted(result: Accepted) -> dict[str, Any]:
    wire: dict[str, Any] = {"status": "accepted", "lower": result.lower}
    if result.exclusion is not None:
        wire["excluded"] = {**result.exclusion._asdict(), "lower": result.lower}
    if result.position is not None:
        wire["position"], wire["times"] = position_to_wire(result.position), result.times or {}
    if result.timeout_ms is not None:
        wire["timeout_ms"] = result.timeout_ms
    return wire
