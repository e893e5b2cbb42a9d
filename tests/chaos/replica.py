"""One of several replicas, and the links to it and from it."""

import asyncio
import signal
from pathlib import Path

import httpx

from demo.trials.postgres import Server
from demo.trials.waiting import PATIENCE_S
from tests.chaos.link import Link
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples

START_PATIENCE_S = 300.0
RESTART_S = 0.3
READY_S = 0.5
STREAMS = "noted_time_streams "


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
            module="tests.chaos.shifted",
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

    def pause(self) -> None:
        """Suspend the process."""
        self._send(signal.SIGSTOP)

    def wake(self) -> None:
        """Resume the process."""
        self._send(signal.SIGCONT)

    def _send(self, what: signal.Signals) -> None:
        if self._process is not None:
            self._process.process.send_signal(what)

    def last_words(self) -> str | None:
        """Return the end of its log if it ended without being stopped, `None` while it runs."""
        if self._process is None or self._process.process.poll() is None:
            return None
        return f"status {self._process.process.returncode}: {self._process.text()[-2000:]}"

    async def streams(self, http: httpx.AsyncClient) -> int:
        """Return how many streams it says it has, 0 if it does not answer."""
        try:
            url = f"http://127.0.0.1:{self.door.target}/metrics"
            lines = (await http.get(url, timeout=READY_S)).text.splitlines()
        except (httpx.TransportError, httpx.InvalidURL):
            return 0
        return sum(int(float(line.split()[1])) for line in lines if line.startswith(STREAMS))

    async def show_state(self, http: httpx.AsyncClient) -> tuple[int, float, float]:
        """Return the status of `/readyz`, and two metrics: whether it is ready, its buckets."""
        url = f"http://127.0.0.1:{self.door.target}"
        ready = await http.get(f"{url}/readyz", timeout=PATIENCE_S)
        text = (await http.get(f"{url}/metrics", timeout=PATIENCE_S)).text
        shown = samples(text, "noted_time_ready"), samples(text, "noted_time_buckets")
        return ready.status_code, shown[0][()], shown[1]["this",]

    async def is_ready(self, http: httpx.AsyncClient) -> bool:
        """Whether it reports that it serves."""
        if self.door.target is None:
            return False
        try:
            url = f"http://127.0.0.1:{self.door.target}/readyz"
            return (await http.get(url, timeout=READY_S)).is_success
        except httpx.TransportError:
            return False
