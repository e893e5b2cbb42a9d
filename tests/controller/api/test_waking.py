"""What a process finds in its sockets after a pause: requests whose senders may have gone."""

from __future__ import annotations

import json
import signal
import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.processes import ServeProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.acceptance

PAUSE_S = 1.0


def posted(process: ServeProcess, path: str, writer: str) -> socket.socket:
    """Send a note on a connection of its own, and do not wait for the answer."""
    body = json.dumps({"notes": [{"writer": writer}]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    sending = socket.create_connection(("127.0.0.1", process.port), timeout=10)
    sending.sendall(head.encode() + body)
    return sending


# with a query the request takes the usual way through ASGI
@pytest.mark.parametrize("path", ["/v1/streams/s/notes", "/v1/streams/s/notes?way=usual"])
def test_after_a_pause_only_notes_are_taken_whose_sender_still_waits(
    tmp_path: Path, path: str
) -> None:
    """Who hung up has said the same elsewhere by then, and perhaps something newer."""
    with ServeProcess(tmp_path).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s")
        process.process.send_signal(signal.SIGSTOP)
        posted(process, path, "gone").close()
        waits = posted(process, path, "waits")
        time.sleep(PAUSE_S)
        process.process.send_signal(signal.SIGCONT)
        answer = waits.recv(4096)
        waits.close()
        time.sleep(PAUSE_S)
        rows = httpx.get(f"{process.url}/v1/streams/s/writers").json()["writers"]

    assert (answer[9:12], [row["writer"] for row in rows]) == (b"200", ["waits"])
