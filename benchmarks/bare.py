"""The floor of all requests: an ASGI server that answers 204 to everything."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send


CONFIG: dict[str, Any] = {
    "host": "127.0.0.1",
    "loop": "uvloop",
    "http": "httptools",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 75,
}
"""The options of uvicorn, the same as the controller's."""


@contextmanager
def bare_server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve the bare 204 app as a process, and yield it with its port."""
    words = [sys.executable, "-m", __name__]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            yield process, int((process.stdout or sys.stdin).readline())
        finally:
            process.kill()


async def app(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    listener = socket.create_server((CONFIG["host"], 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - to the process that started this
    uvicorn.Server(uvicorn.Config(app, lifespan="off", **CONFIG)).run([listener])


if __name__ == "__main__":
    main()
