"""One of several replicas, and the links to it and from it."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support.processes import ServeProcess
from tests.support.scrapes import samples
from tests.trials.chaos.link import Link
from tools.trials.postgres import Server

START_PATIENCE_S = 300.0
RESTART_S = 0.3
READY_S = 0.5
METRICS = ("ready", "buckets", "streams")


class State(NamedTuple):
    """The status of `/readyz`, and three metrics: the numbers are of own buckets and streams."""

    status: int
    ready: float
    buckets: float
    streams: float


class Replica:
    """A `serve` process that may be started any number of times; callers keep its `url`.

    It reaches the database, and callers and other replicas reach it, through a link each. A fault
    that makes it fail holds `busy`.
    """

    def __init__(self, name: str, directory: Path, server: Server, database: str) -> None:
        self.name = name
        self.database = Link(server.port)
        self.door = Link()
        self.busy = asyncio.Lock()
        self.refused_starts = 0
        self._directory = directory / name
        self._directory.mkdir()
        self._server = server
        self._database_name = database
        self._process: ServeProcess | None = None

    @property
    def url(self) -> str:
        """Its URL, for callers."""
        return f"http://127.0.0.1:{self.door.port}"

    async def open(self) -> None:
        """Lay its links."""
        await self.database.open()
        await self.door.open()

    async def close(self) -> None:
        """End the process and the links."""
        self.kill()
        await self.door.close()
        await self.database.close()

    async def start(self, *, ahead_ms: int = 0) -> None:
        """Start the process, on a wall clock that is ahead, and wait until it listens.

        It ends by itself if it does not reach the database; then it is started again, as by a
        supervisor. Raises `TimeoutError` if that lasts too long.
        """
        async with asyncio.timeout(START_PATIENCE_S):
            while not await self._try_to_start(ahead_ms):
                self.refused_starts += 1
                await asyncio.sleep(RESTART_S)

    async def _try_to_start(self, ahead_ms: int) -> bool:
        through = self._server.url(self._database_name, port=self.database.port)
        self._process = process = ServeProcess(
            self._directory,
            *("--database", through, "--advertise", self.url),
            module="tests.trials.chaos.shifted",
            WALL_CLOCK_AHEAD_MS=str(ahead_ms),
        )
        while not process.listens():
            if process.process.poll() is not None:
                return False
            await asyncio.sleep(0.05)
        self.door.target = process.port
        return True

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.door.target = None
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the process as its administrators do."""
        assert self._process is not None
        self._process.stop()
        self.door.target = None

    def signal(self, signal_sent: signal.Signals) -> None:
        """Send the process a signal, such as one that suspends or resumes it."""
        if self._process is not None:
            self._process.process.send_signal(signal_sent)

    def last_words(self) -> str | None:
        """Return the end of its log if it ended without being stopped, `None` while it runs."""
        if self._process is None or self._process.process.poll() is None:
            return None
        return f"status {self._process.process.returncode}: {self._process.text()[-2000:]}"

    async def read_state(self, http: httpx.AsyncClient, patience_s: float = READY_S) -> State:
        """Return what it reports of itself, all 0 if it does not answer in time."""
        url = f"http://127.0.0.1:{self.door.target}"
        with suppress(httpx.TransportError, httpx.InvalidURL):
            answer = await http.get(f"{url}/readyz", timeout=patience_s)
            text = (await http.get(f"{url}/metrics", timeout=patience_s)).text
            ready, buckets, streams = (samples(text, f"noted_time_{name}") for name in METRICS)
            return State(answer.status_code, ready[()], buckets["this",], streams.get((), 0))
        return State(0, 0, 0, 0)
