"""The hot route: notes in, results out.

Decoded by msgspec and answered in front of the FastAPI app: its route machinery costs about 50 µs a
request and pydantic 9 µs a note, where the rest of a durable note takes 20 to 30 µs of the core.
The same function serves the documented route, so that `/openapi.json` tells of it.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from controller.aggregation.world import NotHere
from controller.api.access import check_writers
from controller.api.problems import MEDIA_TYPE, MISDIRECTED, problem, problem_of, unfit
from controller.api.unfit import MUST_BE_A_NAME, SEGMENTS, unfit_notes
from controller.store.port import StoreUnavailable
from noted_time import Accepted, NotedTimeError
from noted_time.cut import MAX_INT64, MIN_INT64
from noted_time.errors import UnknownStream
from noted_time.note import MAX_NOTES_PER_REQUEST, SEGMENTS_PER_POSITION
from noted_time.settings import NAME
from noted_time.wire import position_to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from controller.api.access import Call
    from controller.service.batches import Answering
    from controller.service.controller import Controller
    from noted_time import Refused

    Results = Sequence[Accepted | Refused]

Name = Annotated[str, Meta(min_length=1, max_length=249)]
"""Its characters are looked at by `decode`, of all notes at once."""

Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
Number = Annotated[int, Meta(ge=1, le=MAX_INT64)]
Offset = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Segment = Annotated[int, Meta(ge=0, lt=SEGMENTS)]


class WireNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One note as it comes over the wire; the core takes it as it is."""

    writer: Name
    time: Int64 | None = None
    position: Annotated[dict[Segment, Offset], Meta(max_length=SEGMENTS_PER_POSITION)] = {}
    key: Name | None = None
    max_time: Int64 | None = None
    state: Literal["live", "idle", "left"] = "live"
    sequence: Number | None = None


class NotesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The body: 1 to 1000 notes."""

    notes: Annotated[list[WireNote], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


def _schema() -> dict[str, Any]:
    """Return the JSON schema of the body, complete where msgspec's falls short.

    It leaves the names of the segments open, and patterns of Python are not those of JSON schema.
    """
    (schema,), parts = msgspec.json.schema_components([NotesRequest], ref_template="{name}")
    note = parts["WireNote"]
    note["properties"]["position"]["propertyNames"] = {"pattern": "^(0|[1-9][0-9]{0,17})$"}
    for name in (note["properties"]["writer"], note["properties"]["key"]["anyOf"][0]):
        name.clear()
        name.update(type="string", pattern="^[A-Za-z0-9._-]{1,249}$")
    body: dict[str, Any] = parts[schema["$ref"]]
    body["properties"]["notes"]["items"] = note
    return body


REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {"application/json": {"schema": _schema()}},
}
"""What OpenAPI tells of the body."""

_decoder = msgspec.json.Decoder(NotesRequest)
_encoder = msgspec.json.Encoder()

IN_NAMES = f"{ascii_letters}{digits}._-".encode()

Answer = tuple[int, str, bytes]
"""Status, media type and body."""

NOT_MINE: Answer = (MISDIRECTED, "", b"")

FAILURES = (msgspec.DecodeError, UnicodeDecodeError, NotedTimeError, NotHere, StoreUnavailable)
"""What refuses a request as a whole; a body that does not validate is a `DecodeError` too."""


def decode(body: bytes) -> list[WireNote]:
    """Return the notes of a body; raises `msgspec.DecodeError` or `UnicodeDecodeError`.

    A pattern for each name took more than all the rest.
    """
    notes = _decoder.decode(body).notes
    names = [note.writer for note in notes]
    names += [note.key for note in notes if note.key is not None]
    if "".join(names).encode("ascii", "replace").translate(None, IN_NAMES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    return notes


async def answer_notes(controller: Controller, call: Call, body: bytes) -> Answer:
    """Take the notes of one request and say what became of each, or that the stream went."""
    try:
        results = await submitted(controller, call, body)
    except NotHere as gone:
        return NOT_MINE if NAME.fullmatch(call.stream) else refusal(gone, call.stream, body)
    except FAILURES as failure:
        return refusal(failure, call.stream, body)
    return answer_of(controller, results)


def submit_notes(controller: Controller, call: Call, body: bytes, answer: Answering) -> None:
    """Take the notes of one request; `answer` is told what became of them.

    Raises some of `FAILURES`, and is told the others.
    """
    notes = decode(body)
    check_writers(call, notes)
    controller.submit_notes(call.stream, notes, answer)


def submitted(controller: Controller, call: Call, body: bytes) -> asyncio.Future[Results]:
    """Do the same; the future has what became of them, or raises `FAILURES`."""
    answer: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
    submit_notes(controller, call, body, answer)
    return answer


def answer_of(controller: Controller, results: Results) -> Answer:
    """Say what became of each note, and count it; most are alike, and so are done in runs."""
    runs = [(result, len(list(alike))) for result, alike in groupby(results)]
    controller.count_notes(runs)
    told = b",".join([b",".join([_encoder.encode(_result(result))] * n) for result, n in runs])
    return 200, "application/json", b'{"results":[%b]}' % told


def refusal(failure: Exception, stream: str, body: bytes) -> Answer:
    """Say why the request was refused as a whole."""
    if isinstance(failure, msgspec.ValidationError):
        return plain(unfit(unfit_notes(body) or [("body", str(failure))]))
    if isinstance(failure, msgspec.DecodeError | UnicodeDecodeError):
        return plain(problem(400, "malformed_json", f"body: {failure}"))
    if isinstance(failure, UnknownStream | NotHere) and not NAME.fullmatch(stream):
        return plain(unfit([("path.stream", MUST_BE_A_NAME)]))
    return plain(problem_of(failure))


def _result(result: Accepted | Refused) -> Mapping[str, Any]:
    if isinstance(result, Accepted):
        return {"status": "accepted", "lower": result.lower}
    last = result.last
    return {
        "status": result.status,
        "last": position_to_wire(last) if isinstance(last, dict) else last,
    }


def plain(response: Response) -> Answer:
    """Return a problem as what is sent."""
    return response.status_code, MEDIA_TYPE, bytes(response.body)
