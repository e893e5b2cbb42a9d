"""What strangers can make a controller write to its log, which is on somebody's disk."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import ServeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.acceptance

CALLS = 500
MOST_BYTES = 20_000

FLOODS = {
    "no HTTP": b"\x16\x03\x01\x02\r\n\r\n",
    "answers that nobody reads": 50 * b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown paths": b"GET /%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "removals in vain": b"DELETE /v1/streams/none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "foreign pages": b"PUT /v1/streams/s HTTP/1.1\r\nHost: localhost\r\nOrigin: http://e\r\n\r\n",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A controller in a process of its own."""
    with ServeProcess(tmp_path_factory.mktemp("flooded")).ready() as process:
        yield process


def send(port: int, sent: bytes, *, reads: bool) -> None:
    """Send on a connection of its own, and wait for an answer or hang up."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        if reads:
            connection.recv(1000)


@pytest.mark.parametrize("sent", FLOODS.values(), ids=FLOODS)
def test_a_flood_fills_no_disk(served: ServeProcess, sent: bytes) -> None:
    """The first few of a minute are logged, the others counted."""
    before = served.log_file.stat().st_size
    for number in range(CALLS):
        send(served.port, sent, reads=number % 2 == 1)
    send(served.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", reads=True)

    assert served.log_file.stat().st_size - before < MOST_BYTES, served.text()[-2000:]


def test_what_was_not_logged_is_counted_at_the_end(tmp_path: Path) -> None:
    """Of the server's own warnings too."""
    with ServeProcess(tmp_path).ready() as process:
        for _ in range(25):
            send(process.port, FLOODS["no HTTP"], reads=True)
        process.stop()
        told = [line for line in process.log() if line["event"] == "messages_passed_over"]

    assert [(line["message"], line["count"]) for line in told] == [
        ("Invalid HTTP request received.", 15)
    ]
