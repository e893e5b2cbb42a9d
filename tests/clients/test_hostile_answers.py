"""Slow and large answers cost every client little."""

import asyncio
import os
import signal
import threading
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import cache, partial
from http.server import BaseHTTPRequestHandler
from itertools import chain, repeat

import pytest

from noted_time import Unreachable
from noted_time.client import connections
from noted_time.client.problems import error_of
from noted_time.client.protocol import MOST_BYTES, Question
from noted_time.client.transport import ANSWER_TOO_LATE, AsyncTransport, Transport
from noted_time_cli.client.caller import Caller
from reader_client import AsyncReaderClient, ReaderClient
from tests.support.loopback import Loopback
from tests.support.memory import MIB
from tools.trials.waiting import wait_until
from writer_client import AsyncWriterClient, Pace, WriterClient

PART = b" " * MIB
HUNG_UP = threading.Event()
"""Set once a client hung up on an answer."""


OK = b"HTTP/1.1 200 OK\r\n"


def drip(begin: bytes, end: bytes, drop: bytes = b" ", drops: int = 60) -> Iterator[bytes]:
    """Yield an answer byte by byte, within about six seconds."""
    yield begin
    for _ in range(drops):
        yield drop
        time.sleep(0.1)
    yield end


@cache
def compress_answer() -> list[bytes]:
    """Return an answer of 256 MiB, compressed."""
    packer = zlib.compressobj(wbits=31)  # as gzip
    parts = [packer.compress(PART) for _ in range(256)]
    bomb = b"".join([*parts, packer.flush()])
    return [OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb), bomb]


QUICK = OK + b"content-length: 2\r\n\r\n{}"
DRIPS: dict[str, Callable[[], Iterable[bytes]]] = {
    "header": partial(drip, OK + b"x: ", b"\r\ncontent-length: 2\r\n\r\n{}"),
    "interim": partial(drip, b"", QUICK, b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "body": partial(drip, OK + b"content-length: 62\r\n\r\n", b"{}"),
    "endless": partial(drip, OK + b"connection: close\r\n\r\n{", b"}"),
}
"""Answers with one slow part each."""

LONG = OK + b"content-length: %d\r\n\r\n" % (8 * MOST_BYTES)
ANSWERS = DRIPS | {
    "quick": lambda: [QUICK],
    "slow": partial(drip, OK + b"content-length: 17\r\n\r\n", b"{}", drops=15),
    "packed": compress_answer,
    "long": lambda: chain([LONG], repeat(PART, 8 * MOST_BYTES // MIB)),
}
"""Answers by the first part of the path."""

TRIES = 60
"""How many seconds an answer may take on a busy machine."""


def answer(request: BaseHTTPRequestHandler) -> None:
    """Send the answer of the path until the client hangs up."""
    request.rfile.read(int(request.headers.get("content-length", 0)))
    kind = request.path.split("/")[1]
    try:
        for piece in ANSWERS[kind]():
            request.connection.sendall(piece)
    except OSError:
        HUNG_UP.set()
    request.close_connection = kind != "quick"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that is not a controller."""
    with Loopback(answer) as server:
        yield server.url


async def wait_for_answer(wait: Callable[[float], object]) -> None:
    """Wait again until there was an answer; a busy machine is slow."""
    for _ in range(TRIES):
        try:
            waiting = wait(1.0)
            if isinstance(waiting, Awaitable):
                await waiting
        except Unreachable as error:
            if not str(error).endswith(("no answer", "no answer yet")):
                raise


async def write(url: str, kind: type[WriterClient | AsyncWriterClient] = WriterClient) -> None:
    """Note a time until there was an answer."""
    client = kind("s", "UA", controller=url)
    client.note_time(5, {0: 1})
    try:
        await wait_for_answer(client.flush)
    finally:
        if (closing := client.close(0.01)) is not None:
            await closing


async def read(url: str) -> None:
    """Catch up with the client for threads."""
    with ReaderClient("s", controller=url) as client:
        await wait_for_answer(client.catch_up)


async def read_on_a_loop(url: str) -> None:
    """Catch up with the client for asyncio."""
    async with AsyncReaderClient("s", controller=url) as client:
        await wait_for_answer(client.catch_up)


async def command(url: str) -> None:
    """Ask as the commands do."""
    with closing(Transport(url)) as transport:
        Caller(transport).ask(Question("GET", "/v1/streams"))


write_on_a_loop = partial(write, kind=AsyncWriterClient)


@pytest.mark.parametrize("call", [write, write_on_a_loop, read, read_on_a_loop, command])
@pytest.mark.parametrize(
    ("kind", "why"), [("packed", "the answer is compressed"), ("long", f"over {MOST_BYTES} bytes")]
)
async def test_answer_over_the_size_limit_is_not_read(
    url: str, call: Callable[[str], Awaitable[None]], kind: str, why: str
) -> None:
    """The client stops reading, and unpacks nothing."""
    tracemalloc.start()
    with pytest.raises(Unreachable, match=why):
        await call(f"{url}/{kind}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * MOST_BYTES + 16 * MIB


async def ask(url: str) -> None:
    """Ask over the transport for threads."""
    with closing(Transport(url, timeout_s=1)) as transport:
        transport.ask(Question("GET", "/v1/streams"))


async def ask_again(url: str) -> None:
    """Ask over a connection that is open from the question before."""
    base, _, kind = url.rpartition("/")
    with closing(Transport(base, timeout_s=1)) as transport:
        transport.ask(Question("GET", "/quick"))
        transport.ask(Question("GET", f"/{kind}"))


async def ask_on_a_loop(url: str) -> None:
    """Ask over the transport for asyncio."""
    transport = AsyncTransport(url, timeout_s=1)
    try:
        await transport.ask(Question("GET", "/v1/streams"))
    finally:
        await transport.close()


@pytest.mark.parametrize("call", [ask, ask_again, ask_on_a_loop])
@pytest.mark.parametrize("kind", DRIPS)
async def test_slow_answer_ends_at_the_timeout(
    url: str, call: Callable[[str], Awaitable[None]], kind: str
) -> None:
    """The client hangs up even though no byte was late."""
    HUNG_UP.clear()
    with pytest.raises(Unreachable, match=ANSWER_TOO_LATE):
        await call(f"{url}/{kind}")

    assert await asyncio.to_thread(HUNG_UP.wait, 90)


def test_writer_posts_again_after_a_slow_answer(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its `request_timeout_ms` frees the thread that sends."""
    client = WriterClient("s", "UA", controller=f"{url}/body", pace=Pace(request_timeout_ms=1000))
    client.note_time(5, {0: 1})
    wait_until(lambda: ANSWER_TOO_LATE in caplog.text)
    with suppress(Unreachable):
        client.close(0.01)


def test_timeout_of_one_call_leaves_others_alone(url: str) -> None:
    """Each call has its own connection."""
    with closing(Transport(url, timeout_s=1)) as transport:
        late = threading.Thread(target=ask_for_slow_answer, args=(transport,))
        late.start()
        while late.is_alive():
            assert transport.ask(Question("GET", "/quick")) == {}
        assert transport.ask(Question("GET", "/quick")) == {}


def ask_for_slow_answer(transport: Transport) -> None:
    with pytest.raises(Unreachable, match=ANSWER_TOO_LATE):
        transport.ask(Question("GET", "/body"))


def test_large_answer_gets_a_longer_timeout(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The timeout grows with the bytes, for slow lines."""
    monkeypatch.setattr("noted_time.client.transport.BYTES_PER_S", 0.1)
    with closing(Transport(url, timeout_s=1)) as transport:
        assert transport.ask(Question("GET", "/slow")) == {}


@pytest.mark.parametrize("status", [403, 409, 422])
def test_a_long_explanation_is_cut(status: int) -> None:
    """Errors are logged, and clients remember which ones they logged."""
    problem = {"type": "urn:noted-time:problem:rejected", "detail": "x" * 10**6}
    error = error_of(status, problem, stream="s")

    assert len(str(error)) < 5000


def test_timeout_applies_in_a_forked_child(url: str) -> None:
    """The parent's watch may hold its lock at the fork."""
    with closing(Transport(url)) as parent:
        parent.ask(Question("GET", "/quick", {}))
    held_event = threading.Event()
    forked_event = threading.Event()

    def hold() -> None:
        with connections._deadline_watch._changed:
            held_event.set()
            forked_event.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held_event.wait()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)  # it would wait for ever for what its parent held
        with closing(Transport(url, timeout_s=0.5)) as own_transport, suppress(Unreachable):
            own_transport.ask(Question("GET", "/body", {}))
            os._exit(1)
        os._exit(7)
    forked_event.set()
    holder.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
