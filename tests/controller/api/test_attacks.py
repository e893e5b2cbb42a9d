"""Strangers cannot exhaust a controller, which stays small and answers others."""

import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from controller.api.middleware import MAX_BODY
from tests.controller.api.wire import PATH, Wire, post
from tests.support.memory import Usage
from tests.support.processes import ServeProcess
from tools.trials.waiting import eventually, slowdown

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(sys.platform != "linux", reason="memory and files are read from /proc"),
]

MOST_MIB = 64
PROMPT_S = 5
"""How soon an idle machine answers other callers."""
NOTE = b'{"notes":[{"writer":"a","time":5}]}'
PUT = b"PUT /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n\r\n"
GET = b"GET /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = (
    b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)
FILLER = b"x" * 65536


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A controller process with a stream `s`, which waits 1 s for a request."""
    directory = tmp_path_factory.mktemp("attacks")
    with ServeProcess(directory, module="tests.controller.api.hasty").ready() as process:
        with Wire(process.port) as wire:
            wire.send(PUT)
            assert wire.answer()[0] == 201
            wire.send(post(NOTE))
            wire.answer()
        yield process


@contextmanager
def stay_small_and_prompt(served: ServeProcess, most_mib: int = MOST_MIB) -> Iterator[None]:
    """Note on another connection meanwhile: the controller answers soon, and uses few MiB more."""
    usage = Usage(served.process.pid)
    took = list[float]()
    is_done = threading.Event()

    def note() -> None:
        with Wire(served.port) as wire:
            while not is_done.wait(0.02):
                began_s = time.monotonic()
                wire.send(post(NOTE))
                assert wire.answer()[0] == 200
                took.append(time.monotonic() - began_s)

    thread = threading.Thread(target=note)
    thread.start()
    try:
        yield
        assert eventually(lambda: len(took) > 1, expected=True)
    finally:
        is_done.set()
        thread.join()
    assert usage.memory() < most_mib
    assert max(took) < PROMPT_S * slowdown()


FLOODS = {
    "one field": (GET[:-2] + b"X: ", FILLER, 4800),
    "many fields": (GET[:-2], b"a:b\r\n" * 13107, 1600),
    "a path": (b"GET /", FILLER, 1600),
    "empty lines": (b"", b"\r\n" * 32768, 1600),
    "a trailer": (CHUNKED + b"0\r\nX: ", FILLER, 1600),
    "many trailers": (CHUNKED + b"0\r\n", b"a:b\r\n" * 13107, 1600),
    "a chunk's extension": (CHUNKED + b"1;", FILLER, 1600),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_endless_head_is_refused_early(served: ServeProcess, flood: str) -> None:
    """300 MB of one field, or 100 MB of others, cost neither memory nor others' time."""
    begin, part, times = FLOODS[flood]
    with stay_small_and_prompt(served), Wire(served.port) as wire:
        wire.send(begin)
        wire.flood(part, times)

        assert wire.has_ended("431")


@pytest.mark.parametrize(
    "request_", [b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", GET, post(NOTE)]
)
def test_requests_sent_ahead_use_no_memory(served: ServeProcess, request_: bytes) -> None:
    """10 MB of requests are read while they are answered, and other callers do not wait."""
    with stay_small_and_prompt(served), Wire(served.port) as wire:
        sender = threading.Thread(target=wire.flood, args=(request_ * 500, 10**7 // 500))
        sender.start()
        answers = [wire.answer()[0] for _ in range(2000)]
        wire.hang_up()
        sender.join()

    assert answers == [404 if b" /x " in request_ else 200] * 2000


def test_unread_answers_stop_reading(served: ServeProcess) -> None:
    with stay_small_and_prompt(served), Wire(served.port, timeout_s=2) as wire:
        wire.flood(GET * 1000, 300)


def test_chunks_of_one_byte_are_cheap(tmp_path: Path) -> None:
    """A mebibyte of chunks takes less than two seconds of CPU time."""
    body = NOTE.ljust(MAX_BODY)
    with ServeProcess(tmp_path).ready() as served, Wire(served.port) as wire:
        wire.send(PUT)
        wire.answer()
        usage = Usage(served.process.pid)
        wire.send(CHUNKED, b"".join(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n")
        status, _ = wire.answer()
        facts = status, usage.cpu() < 2 * slowdown(), usage.memory() < MOST_MIB

    assert facts == (200, True, True)


def test_slow_heads_time_out(served: ServeProcess) -> None:
    """Two hundred slow heads do not delay other callers."""
    with ExitStack() as stack, stay_small_and_prompt(served):
        wires = [stack.enter_context(Wire(served.port)) for _ in range(200)]
        for wire in wires:
            wire.send(GET[:9])
        dripping = threading.Event()
        dripper = threading.Thread(target=_drip, args=(wires, dripping))
        dripper.start()
        have_ended = [wire.has_ended() for wire in wires]
        dripping.set()
        dripper.join()

    assert have_ended == [True] * 200


def _drip(wires: Sequence[Wire], is_over: threading.Event) -> None:
    while not is_over.wait(0.1):
        for wire in wires:
            wire.flood(b"x", 1)


@pytest.mark.parametrize(("path", "kept"), [(PATH, 100), ("/healthz", 0)])
def test_unfinished_bodies_do_not_delay_others(served: ServeProcess, path: str, kept: int) -> None:
    """Each body lacks a byte of a mebibyte."""
    with ExitStack() as stack, stay_small_and_prompt(served, kept + MOST_MIB):
        wires = []
        for _ in range(100):
            wires.append(stack.enter_context(Wire(served.port)))
            wires[-1].flood(post(b" " * MAX_BODY, path)[:-1], 1)
        have_ended = [wire.has_ended() for wire in wires]

    assert have_ended == [True] * 100


def test_open_connections_are_served_without_file_handles(tmp_path: Path) -> None:
    """The controller logs the lack of handles once a minute."""
    with ExitStack() as stack:
        served = stack.enter_context(ServeProcess(tmp_path)).ready()
        wire = stack.enter_context(Wire(served.port))
        wire.send(PUT)
        wire.answer()
        max_files = Usage(served.process.pid).files() + 20
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (max_files, max_files))
        with ExitStack() as strangers:
            for _ in range(100):
                strangers.enter_context(Wire(served.port))
            eventually(lambda: list_events(served).count("no_more_files"), expected=1)
            wire.send(post(NOTE))
            status = wire.answer()[0]
        eventually(lambda: takes_notes(served), expected=True)

    assert (status, list_events(served).count("no_more_files")) == (200, 1)


def list_events(served: ServeProcess) -> list[str]:
    return [line["event"] for line in served.log()]


def takes_notes(served: ServeProcess) -> bool:
    with Wire(served.port) as wire:
        wire.flood(post(NOTE), 1)
        return b" 200 " in wire.line()
