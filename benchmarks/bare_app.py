"""The least an ASGI server can do: answer 204 to everything. The floor of all requests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


CONFIG: dict[str, Any] = {
    "host": "127.0.0.1",
    "loop": "uvloop",
    "http": "httptools",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "backlog": 4096,
}
"""The options with which uvicorn serves the controller, too."""


async def app(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 204 without looking at the request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def main(port: int) -> None:
    """Serve on the loopback."""
    uvicorn.run(app, port=port, lifespan="off", **CONFIG)


if __name__ == "__main__":
    main(int(sys.argv[1]))
