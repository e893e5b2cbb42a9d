"""How the app is served: uvicorn, with a shutdown that leaves nobody hanging."""

from __future__ import annotations

import gc
from contextlib import suppress
from signal import SIGTERM, signal
from typing import TYPE_CHECKING, NoReturn

import structlog
import uvicorn

from controller.api.app import create_app
from controller.api.protocol import protocol_for

if TYPE_CHECKING:
    from socket import socket
    from types import FrameType

    from controller.service.controller import Controller

log = structlog.get_logger()

GRACE_S = 10


class Server(uvicorn.Server):
    """A server that lets long polls go when it is told to stop.

    uvicorn waits for open requests before it ends the app's lifespan, so a long poll would keep a
    stopping controller up for its whole wait.
    """

    def __init__(self, config: uvicorn.Config, controller: Controller) -> None:
        """Serve as configured."""
        super().__init__(config)
        self._controller = controller

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and say where: the port may have been left to the system."""
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                address, port = listening.getsockname()[:2]
                host = f"[{address}]" if ":" in address else address
                log.info("serving", url=f"http://{host}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown on a signal."""
        self._controller.let_go()
        super().handle_exit(sig, frame)


def serve(controller: Controller, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; every request that was taken is answered."""
    # What is loaded stays: without this a full collection over 100,000 members stops
    # everything for 160 ms.
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    config = uvicorn.Config(
        create_app(controller),
        host=host,
        port=port,
        loop="auto",
        http=protocol_for(controller),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody asks for a client's address, which costs some µs a request
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_S,
        backlog=4096,
    )
    # uvicorn hands the signal on once it has shut down: to us, so that this was no death by signal.
    signal(SIGTERM, _leave)
    with suppress(KeyboardInterrupt):
        Server(config, controller).run()


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
