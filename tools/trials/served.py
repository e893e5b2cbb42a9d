"""The real controller on a port of this machine, in a thread that can stop and restart."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Self

import uvicorn

from controller.api.app import create_app
from controller.api.gate.access import Gate
from controller.api.sockets.connections import Connection
from controller.api.sockets.server import NO_SNIFFING, Server
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from controller.service.limits import Limits
from tools.trials.calls import Calls
from tools.trials.memory_store import MemoryStore
from tools.trials.waiting import PATIENCE_S, wait_until


class KeptStore(MemoryStore):
    """A store that a controller cannot close, for the next one."""

    def close(self) -> None:
        """Stay open."""


class LettingGo(Server):
    """The controller's server, stopped without a signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer long polls first."""
        self._controller.prepare_to_stop()
        await super().shutdown(sockets)


class Served(Calls):
    """A controller over a store in memory that outlives it, served by uvicorn.

    `stop` and `start` keep the port.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        limits: Limits | None = None,
        *,
        clocks: Clocks | None = None,
        gate: Gate | None = None,
    ) -> None:
        super().__init__("")
        self._store = store or KeptStore()
        self._limits = limits
        self._clocks = clocks
        self._gate = gate
        self._port = 0
        self.start()

    def start(self) -> None:
        self._controller = Controller(self._store, self._clocks, self._limits)
        config = uvicorn.Config(
            create_app(self._controller, self._gate),
            host="127.0.0.1",
            port=self._port,
            http=Connection,
            headers=NO_SNIFFING,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
        self._server = LettingGo(config, self._controller)
        self._thread = threading.Thread(target=self._server.run, name="served", daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]
        self._url = f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def stop(self) -> None:
        """Answer waiting requests, and end; do nothing the second time."""
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the controller did not stop"

    @contextmanager
    def lose_writes(self) -> Iterator[None]:
        """Lose all that is written meanwhile, like a restored backup."""
        tables = deepcopy(self._store.tables)
        yield
        self.stop()
        self._store.tables = tables
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
