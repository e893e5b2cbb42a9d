"""The asynchronous clients in a schedule, over its network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import inf
from random import Random
from unittest.mock import patch

from controller.service import long_reads, polls
from noted_time import Unreachable
from noted_time.client import Json
from noted_time.coding import convert_to_json
from reader_client import AsyncReaderClient
from reader_client.background import repeating
from tests.trials.facts import Answer
from tests.trials.simulation.doors import Network
from tests.trials.simulation.pen import Pen
from writer_client import AsyncWriterClient
from writer_client.at_exit import open_clients
from writer_client.sending.exchange import RequestNumbers
from writer_client.sending.posting import Posting
from writer_client.sending.vouched import Process

WRITER = "y"
SEGMENT = 7
POLL_MS = 2000
PATIENCE_S = 3.0


@contextmanager
def seed_clients(
    now: Callable[[], float], wall_ms: Callable[[], int], chance: Random
) -> Iterator[None]:
    """Have clients and long polls use the schedule's clocks and its random numbers.

    Long reads are not sliced, because slices end by the clock of the machine.
    """
    sessions = iter(range(1, 1000))
    with (
        patch.object(time, "monotonic", now),
        patch.object(time, "time_ns", lambda: wall_ms() * 1_000_000),
        patch.object(polls, "monotonic", now),
        patch.object(long_reads, "SLICE_S", inf),
        patch.object(repeating, "draw_chance", chance.random),
        patch.dict(Posting.__init__.__kwdefaults__, chance=chance.random),
        patch.object(RequestNumbers.__init__, "__defaults__", (lambda: wall_ms() * 1000,)),
        patch.object(Process, "own", lambda: Process(str(next(sessions)), "simulated")),
    ):
        yield


class Pair:
    """A writer, whose processes follow each other, and a reader of one stream.

    `acknowledged` is called whenever a flush has confirmed all that the pen noted.
    """

    def __init__(
        self,
        stream: str,
        url: str,
        network: Network,
        chance: Random,
        acknowledged: Callable[[Pen], None],
    ) -> None:
        self.answers: list[Answer] = []
        self._pen = Pen(stream, WRITER, SEGMENT)
        self.stream = stream
        self._url = url
        self._network = network
        self._chance = chance
        self._acknowledged = acknowledged

    async def write(self, notes: int) -> None:
        """Note time in processes that are closed or that end without a word."""
        left = notes
        while left > 0:
            client = AsyncWriterClient(
                self.stream, WRITER, controller=self._url, transport=self._network
            )
            for _ in range(self._chance.randrange(1, left + 1)):
                await asyncio.sleep(self._chance.uniform(0, 0.8))
                self._pen.write(self._chance)
                self._note(client)
                left -= 1
                if self._chance.random() < 0.5:
                    await self._confirm(client.flush(PATIENCE_S))
            if self._chance.random() < 0.5:
                _kill(client)
            else:
                await self._confirm(client.close(PATIENCE_S))

    async def reach(self, time: int) -> None:
        """Note the time until it is durable."""
        async with AsyncWriterClient(
            self.stream, WRITER, controller=self._url, transport=self._network
        ) as client:
            self._pen.time = time
            self._pen.append(self._chance)
            self._note(client)
            while not await self._confirm(client.flush(PATIENCE_S)):
                pass

    def start_reading(self) -> None:
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Follow the marks in clients that follow each other."""
        while True:
            async with self._reader() as client:
                after = 0
                for _ in range(self._chance.randrange(1, 10)):
                    await asyncio.sleep(self._chance.uniform(0.1, 1.0))
                    after = await self._take(client, after)

    async def read_all(self, first: int) -> list[Json]:
        """Return all marks of the stream from seq `first` on, as a new client reads them."""
        async with self._reader() as client:
            await client.catch_up(60)
            marks = [convert_to_json(mark) async for mark in client.marks()]
        self.answers.append(Answer(0, marks, first))
        return marks

    def _reader(self) -> AsyncReaderClient:
        return AsyncReaderClient(
            self.stream, controller=self._url, wait_ms=POLL_MS, transport=self._network
        )

    async def _take(self, client: AsyncReaderClient, after: int) -> int:
        try:
            marks = [convert_to_json(mark) async for mark in client.marks(after)]
        except Unreachable:  # it knows no marks yet
            return after
        if marks:
            self.answers.append(Answer(after, marks))
            after = marks[-1]["seq"]
        return after

    def _note(self, client: AsyncWriterClient) -> None:
        client.note_time(self._pen.time, self._pen.position)

    async def _confirm(self, delivery: Awaitable[object]) -> bool:
        """Wait for a flush or the end of a client; returns whether all notes are durable."""
        try:
            await delivery
        except Unreachable:
            return False
        self._acknowledged(self._pen)
        return True


def _kill(client: AsyncWriterClient) -> None:
    """End it as the end of its process would, without a word."""
    open_clients.pop(client, None)
    if client._task is not None:
        client._task.cancel()
