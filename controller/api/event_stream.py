"""Marks as server-sent events: one answer that continues, made of the long polls of one reader.

The controller that is asked polls the stream's owner, itself or another. So an event stream
outlives a change of owner, and whatever refuses a long poll (a revoked token, say) ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from msgspec.json import decode, encode

from controller.api.answers import Answer
from controller.api.calls import StreamRequest
from controller.api.problems import problem_of
from noted_time.values import UnknownStream

if TYPE_CHECKING:
    from starlette.responses import Response

WAIT_MS, PAUSE_S = 15_000, 1.0
"""How long one poll waits (proxies close connections that are silent for a minute), and the pause
between two while no controller owns the stream, or before a client connects again."""
EVENTS, OK, UNAVAILABLE = "text/event-stream", 200, 503
HEADERS = {"content-type": EVENTS, "cache-control": "no-store", "x-accel-buffering": "no"}
ABOUT = "stream_id", "scale_events", "corrections"


async def answer_events(
    request: StreamRequest, poll: Callable[..., Awaitable[Answer]], stopping: asyncio.Event
) -> Response:
    """Return the marks as they come, until the controller stops; or what refuses the first poll.

    `poll` answers a request for marks, by the owner of the stream; it raises nothing.
    """
    query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
    if last_id := request.header(b"last-event-id"):  # of a client that comes back
        query["after"] = last_id.decode("latin-1")
    headers = [each for each in request.scope["headers"] if each[0] != b"accept"]

    async def polled() -> Answer:
        changed = {"query_string": urlencode(query).encode("ascii"), "headers": headers}
        return await poll(request._replace(scope={**request.scope, **changed}))

    async def events(answer: Answer) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=int(PAUSE_S * 1000))
        about: dict[str, Any] = {}
        while answer.status in {OK, UNAVAILABLE}:
            found = decode(answer.body) if answer.status == OK else {**about, "marks": []}
            if about and found["stream_id"] != about["stream_id"]:
                answer = problem_of(UnknownStream(request.stream))
                break
            yield b"".join(_news(found, about)) or KEEPALIVE_COMMENT
            if stopping.is_set():
                return
            about = {name: found[name] for name in ABOUT}
            query["wait_ms"] = str(WAIT_MS)
            if found["marks"]:
                query["after"] = str(found["marks"][-1]["seq"])
            await asyncio.sleep(0 if answer.status == OK else PAUSE_S)
            answer = await polled()
        yield format_sse_event(event="problem", data_str=answer.body.decode())

    first = await polled()
    response = EventSourceResponse(events(first), headers=HEADERS)
    return response if first.status == OK else first.to_response()


def _news(found: dict[str, Any], before: dict[str, Any]) -> Iterator[bytes]:
    about = {name: found[name] for name in ABOUT}
    if about != before:
        yield format_sse_event(event="stream", data_str=encode(about).decode())
    for mark in found["marks"]:
        yield format_sse_event(id=str(mark["seq"]), data_str=encode(mark).decode())
