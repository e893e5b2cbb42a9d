"""The protocol on a simulated connection, with given pieces of data."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from httptools import HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from controller.api.app import create_app
from controller.api.sockets.connections import Connection
from controller.service.controller import Controller
from tests.controller.api.wire import post
from tests.support.controllers import wait_until_async
from tests.support.properties import costly
from tools.trials.memory_store import MemoryStore


class MemoryTransport(asyncio.Transport):
    """A connection whose other end is the test; it keeps the written data."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - asyncio's
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:  # noqa: ANN401 - asyncio's
        self.parts.append(bytes(data))

    @property
    def written(self) -> bytes:
        return b"".join(self.parts)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Let the test send more."""

    def resume_reading(self) -> None:
        """Resume."""

    def abort(self) -> None:
        self.is_closed = True

    @property
    def statuses(self) -> list[int]:
        """The statuses of the complete answers."""
        found: list[int] = []
        parser: HttpResponseParser
        events = SimpleNamespace(on_message_complete=lambda: found.append(parser.get_status_code()))
        parser = HttpResponseParser(events)
        parser.feed_data(self.written)
        return found


def encode_chunked(body: bytes) -> bytes:
    head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"".join(b"1\r\n%b\r\n" % bytes([byte]) for byte in body) + b"0\r\n\r\n"


NOTE = b'{"notes":[{"writer":"a","time":5}]}'
REQUESTS = {
    post(NOTE): 200,
    post(NOTE.replace(b"a", b"b")): 200,
    post(NOTE + b" "): 200,
    encode_chunked(NOTE): 200,
    post(b"{" * len(NOTE)): 400,
    post(b"{}"): 422,
    post(NOTE, "/v1/streams/absent/notes"): 404,
    b"GET /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n\r\n": 200,
    post(NOTE, "/v1/streams/s/absent"): 404,
}


async def connect_to(controller: Controller, request_s: float = 5) -> Connection:
    """Return one end of a connection to a controller with a stream `s`."""
    await controller.start()
    await controller.put_stream("s", {})
    config = uvicorn.Config(create_app(controller), lifespan="off", log_config=None)
    config.load()
    connection = Connection(app_state={}, config=config, server_state=ServerState())
    connection.request_s = request_s
    connection.connection_made(MemoryTransport())
    return connection


@asynccontextmanager
async def open_connection(
    request_s: float = 5,
) -> AsyncIterator[tuple[Connection, MemoryTransport]]:
    """Yield both ends of a connection to a controller with a stream `s`."""
    controller = Controller(MemoryStore())
    connection = await connect_to(controller, request_s)
    try:
        yield connection, cast("MemoryTransport", connection._network)
    finally:
        connection.connection_lost(None)
        await controller.close()


def split(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(edges)]


async def wait_for_answers(transport: MemoryTransport, count: int) -> list[int]:
    """Wait until that many requests were answered, and return the statuses."""
    await wait_until_async(lambda: len(transport.statuses) >= count)
    return transport.statuses


@costly(2)
@given(
    sent=st.lists(st.sampled_from(list(REQUESTS)), min_size=1, max_size=8),
    places=st.lists(st.integers(0, 4000), max_size=6),
    waits=st.sampled_from(["waits", "sends ahead"]),
)
def test_requests_cut_anywhere_are_answered_in_order(
    sent: list[bytes], places: list[int], waits: str
) -> None:
    async def play() -> list[int]:
        async with open_connection() as (connection, transport):
            batches = (
                [[request] for request in sent]
                if waits == "waits"
                else [split(b"".join(sent), places)]
            )
            for count, pieces in enumerate(batches, start=1):
                for piece in pieces:
                    connection.data_received(piece)
                await wait_for_answers(transport, count)
            return await wait_for_answers(transport, len(sent))

    assert asyncio.run(play()) == [REQUESTS[request] for request in sent]


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        post(NOTE)[:30],
        post(NOTE)[:-1],
        encode_chunked(NOTE)[:-4],
        post(NOTE) + post(NOTE)[:-1],
    ],
    ids=["silent", "half a head", "half a body", "half of the chunks", "half of the second"],
)
async def test_connection_with_incomplete_request_is_closed(begun: bytes) -> None:
    async with open_connection(request_s=0.1) as (connection, transport):
        connection.data_received(begun)
        await wait_until_async(lambda: transport.is_closed)

    has_whole_request = len(begun) > len(post(NOTE)) and b"chunked" not in begun
    assert transport.statuses == ([200] if has_whole_request else [])


async def test_connection_in_use_is_not_closed() -> None:
    """The timeout begins with the first byte of each request and pauses while one is answered."""
    poll = b"GET /v1/streams/s/marks?wait_ms=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with open_connection(request_s=0.3) as (connection, transport):
        for count in range(1, 4):
            connection.data_received(post(NOTE)[:30])
            await asyncio.sleep(0)
            connection.data_received(post(NOTE)[30:])
            await wait_for_answers(transport, count)
            await asyncio.sleep(0.6)
        connection.data_received(poll.replace(b"?", b"?after=1&"))
        statuses = await wait_for_answers(transport, 4)
        was_closed = transport.is_closed

    assert (statuses, was_closed) == ([200] * 4, False)


@pytest.mark.parametrize("is_polling", [False, True], ids=["answered", "gone"])
async def test_ended_connection_is_freed_without_collection(*, is_polling: bool) -> None:
    """A garbage collection would come too late."""
    controller = Controller(MemoryStore())
    connection = await connect_to(controller)
    transport: Any = connection._network
    left = weakref.ref(connection), weakref.ref(connection._server)
    gc.disable()
    try:
        connection.data_received(post(NOTE))
        await wait_for_answers(transport, 1)
        if is_polling:
            poll = (
                b"GET /v1/streams/s/marks?after=1&wait_ms=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            connection.data_received(poll)
            await wait_until_async(lambda: bool(len(controller.polls)))
        connection.connection_lost(None)
        del connection
        async with asyncio.timeout(25.0):
            await wait_until_async(lambda: left[0]() is left[1]() is None)
    finally:
        gc.enable()
        await controller.close()


async def test_answer_is_sent_in_one_packet() -> None:
    head = post(NOTE)[: -len(NOTE)]
    body = NOTE
    async with open_connection() as (connection, transport):
        connection.data_received(post(NOTE))
        await wait_for_answers(transport, 1)
        connection.data_received(head.replace(b"Host", b"Expect: 100-continue\r\nHost"))
        await wait_until_async(lambda: len(transport.parts) > 1)
        connection.data_received(body)
        await wait_until_async(lambda: len(transport.parts) > 2)

    first, meanwhile, last = transport.parts
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert meanwhile == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [first[-2:], last[-2:]] == [b"]}", b"]}"]


@pytest.mark.parametrize(
    ("more", "status"), [(b"", 400), (b"Origin: http://elsewhere.example\r\n", 403)]
)
async def test_body_that_looks_like_request_does_not_run(more: bytes, status: int) -> None:
    """This holds for a refused request, too."""
    async with open_connection() as (connection, transport):
        connection.data_received(post(NOTE))
        await wait_for_answers(transport, 1)
        head = post(post(NOTE))[: -len(post(NOTE))]
        for piece in (head.replace(b"Host", more + b"Host"), post(NOTE), post(NOTE)):
            connection.data_received(piece)
        statuses = await wait_for_answers(transport, 3)

    assert statuses == [200, status, 200]
