"""Writers that keep their promises against a controller that may be killed at any moment."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from noted_time.client import Json
from tests.support.honest import HonestWriter, Log

SEGMENTS = 4


@dataclass
class LoadedStream(Log):
    """A stream under load and the truth about it: every event, every writer.

    Writers share four segments, or have one each. `rests` is how often a writer goes idle rather
    than write, `leaves` how often it leaves rather than go idle.
    """

    name: str
    domains: tuple[str, ...] = ("default",)
    shared: bool = True
    rests: float = 0.04
    leaves: float = 0.3
    writers: list[LoadWriter] = field(default_factory=list)

    def writer(self, chance: random.Random) -> LoadWriter:
        """Make a new writer."""
        number = len(self.writers)
        segments = range(SEGMENTS) if self.shared else range(number, number + 1)
        writer = LoadWriter(name=f"w{number}", stream=self, segments=segments, chance=chance)
        self.writers.append(writer)
        return writer


@dataclass(kw_only=True)
class LoadWriter(HonestWriter):
    """One writer that writes only what its notes leave open.

    Its promises may be acknowledged or not; `acknowledged` is what a 200 confirmed. It writes
    while a live note of it is acknowledged and none that ends that is sent. While it is not
    `is_settled`, it stays what it is, live or idle.
    """

    stream: LoadedStream
    segments: range
    chance: random.Random
    acknowledged: dict[str, int] = field(default_factory=dict)
    acknowledged_position: dict[int, int] = field(default_factory=dict)
    lowers: dict[str, int] = field(default_factory=dict)
    state: str = "new"
    is_settled: bool = True

    def next_notes(self) -> list[Json]:
        """Write some events if that is allowed, then return the note about them."""
        if self.state == "idle" and not self.is_settled:
            return []
        if self.state != "live":  # the answers give since when it may write, for each domain
            return [self._note(domain, None) for domain in self.stream.domains]
        if self.chance.random() < self.stream.rests and self.is_settled:
            return [self._rest()]
        for _ in range(self.chance.randrange(4)):
            self._write_some()
        domain = self.chance.choice(self.stream.domains)
        return [self._note(domain, self._next_time(domain))]

    def last_notes(self, noted: int) -> list[Json]:
        """Return the note of a live writer that will write nothing below that time."""
        return [self._note(domain, noted) for domain in self.stream.domains]

    def answered(self, note: Json, result: Json) -> None:
        """Take in that the note is durable; raises `AssertionError` if it was refused."""
        assert result["status"] == "accepted", (note, result)
        domain, lower = note["domain"], result["lower"]
        if lower is not None:
            self.lowers[domain] = max(lower, self.lowers.get(domain, lower))
        if "time" in note:
            self.acknowledged[domain] = note["time"]
        self.acknowledged_position.update({int(s): end for s, end in note["position"].items()})
        self.state = note["state"]

    def _write_some(self) -> None:
        times = {
            domain: self._floor(domain) + self.chance.randrange(300)
            for domain in self.stream.domains
        }
        self.write(self.stream, self.chance.choice(self.segments), times)

    def _floor(self, domain: str) -> int:
        return max(self.promised.get(domain, 0), self.lowers.get(domain, 0))

    def _next_time(self, domain: str) -> int:
        return max(self._floor(domain), time.time_ns() // 1_000_000 - self.chance.randrange(100))

    def _rest(self) -> Json:
        """Go idle, or leave and never come back."""
        state = "finished" if self.chance.random() < self.stream.leaves else "idle"
        self.state = state
        return self._note(self.stream.domains[0], None) | {"state": state}

    def _note(self, domain: str, noted: int | None) -> Json:
        position = {str(segment): end for segment, end in self.position.items()}
        note: Json = {"writer": self.name, "domain": domain, "position": position, "state": "live"}
        if noted is not None:
            note["time"] = self.promised[domain] = noted
        if domain in self.largest:
            note["max_time"] = self.largest[domain]
        return note


@dataclass
class Load:
    """Tasks of writers, and of readers that follow, until `stop`."""

    url: str
    streams: Sequence[LoadedStream]
    seed: int = 1
    answered: int = 0
    failed: int = 0
    followed: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    stopping: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, client: httpx.AsyncClient, *, singles: int, batches: int) -> None:
        """Begin: `singles` tasks of one writer each, `batches` of eight, a reader per domain."""
        for number in range(singles + batches):
            stream = self.streams[number % len(self.streams)]
            chance = random.Random(self.seed * 1000 + number)
            count = 1 if number < singles else 8
            self._tasks.append(asyncio.create_task(self._write(stream, count, chance)))
        for stream in self.streams:
            for domain in stream.domains:
                self._tasks.append(asyncio.create_task(self._follow(client, stream.name, domain)))

    async def stop(self) -> None:
        """Let every task finish what it has begun; raises the errors of any."""
        self.stopping = True
        await asyncio.gather(*self._tasks)

    async def _write(self, stream: LoadedStream, count: int, chance: random.Random) -> None:
        """Be some writers with a client of their own: the time of a shared one goes by its size."""
        writers = [stream.writer(chance) for _ in range(count)]
        async with httpx.AsyncClient(timeout=60) as client:
            while not self.stopping:
                for index, writer in enumerate(writers):
                    if writer.state == "finished":
                        writers[index] = stream.writer(chance)
                asked = [(writer, note) for writer in writers for note in writer.next_notes()]
                results = await self._post(client, stream.name, [note for _, note in asked])
                for (writer, note), result in zip(asked, results, strict=True):
                    writer.answered(note, result)
                await asyncio.sleep(chance.random() * 0.1)

    async def _post(self, client: httpx.AsyncClient, stream: str, notes: list[Json]) -> list[Json]:
        """Post the same notes until they are answered, as a writer does that does not know."""
        while True:
            try:
                url = f"{self.url}/v1/streams/{stream}/notes"
                answer = await client.post(url, json={"notes": notes})
            except httpx.TransportError:
                self.failed += 1
            else:
                if answer.status_code == 200:
                    self.answered += 1
                    results: list[Json] = answer.json()["results"]
                    return results
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"], answer.text
                self.failed += 1
            await asyncio.sleep(0.05)

    async def _follow(self, client: httpx.AsyncClient, stream: str, domain: str) -> None:
        """Long-poll the marks of a domain; what was seen once must stay as it was."""
        seen = self.followed.setdefault((stream, domain), [])
        while not self.stopping:
            query: dict[str, str | int] = {"domain": domain, "after": len(seen), "wait_ms": 1000}
            try:
                answer = await client.get(f"{self.url}/v1/streams/{stream}/marks", params=query)
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                assert answer.status_code == 200, answer.text
                seen.extend(answer.json()["marks"])
