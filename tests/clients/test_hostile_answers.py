"""What answers in place of a controller costs a client little, whichever client it is."""

import gzip
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from controller.cli.calling import Caller
from noted_time import Unreachable
from noted_time.client.asking import MOST_BYTES
from noted_time.client.transport import Transport
from reader_client import AsyncReaderClient, ReaderClient
from tests.support.memory import MIB
from writer_client import AsyncWriterClient, WriterClient

BOMB = gzip.compress(b" " * 256 * MIB)
PART = b" " * MIB


class Hostile(BaseHTTPRequestHandler):
    """Answers each request with more than a client can hold, compressed or as it is."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by what the path begins with."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        if self.path.startswith("/packed"):
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(BOMB)))
            self.end_headers()
            self.wfile.write(BOMB)
            return
        self.send_header("content-length", str(8 * MOST_BYTES))
        self.end_headers()
        try:
            for _ in range(8 * MOST_BYTES // MIB):
                self.wfile.write(PART)
        except OSError:
            self.close_connection = True

    do_POST = do_PUT = do_GET  # noqa: N815 - the names that the server looks for

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that is not a controller."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def write(url: str) -> None:
    """Note by the client for threads."""
    client = WriterClient(url, "s", "UA")
    client.note_time(5, {0: 1})
    try:
        client.flush(1.0)
    finally:
        client.close(0.01)


async def write_on_a_loop(url: str) -> None:
    """Note by the client for tasks."""
    client = AsyncWriterClient(url, "s", "UA")
    client.note_time(5, {0: 1})
    try:
        await client.flush(1.0)
    finally:
        await client.close(0.01)


async def read(url: str) -> None:
    """Ask by the client for threads."""
    with ReaderClient(url, "s") as client:
        client.catch_up(2.0)


async def read_on_a_loop(url: str) -> None:
    """Ask by the client for tasks."""
    async with AsyncReaderClient(url, "s") as client:
        await client.catch_up(2.0)


async def command(url: str) -> None:
    """Ask as the commands do."""
    with closing(Transport(url)) as transport:
        Caller(transport).ask("GET", "/v1/streams")


@pytest.mark.parametrize("call", [write, write_on_a_loop, read, read_on_a_loop, command])
@pytest.mark.parametrize(
    ("kind", "why"), [("packed", "packed by 'gzip'"), ("long", f"over {MOST_BYTES} bytes")]
)
async def test_an_answer_beyond_the_bound_is_not_read(
    url: str, call: Callable[[str], Awaitable[None]], kind: str, why: str
) -> None:
    """It is read no further, and nothing is unpacked."""
    tracemalloc.start()
    with pytest.raises(Unreachable, match=why):
        await call(f"{url}/{kind}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * MOST_BYTES + 16 * MIB
