"""The least an ASGI server can do: 204 to everything. The floor of all that is served."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


async def app(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 204 without a look at the request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def main(port: int) -> None:
    """Serve on the loopback as the controller does: uvloop, httptools, no access log."""
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=4096,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
