"""A schedule: writers, controllers and faults, all chosen from a seed, and the laws they break."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from controller.aggregation.owned_streams import NotOwner
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from controller.store.port import AppendedMark, StoreUnavailable, Transaction
from noted_time import Accepted, Mark
from noted_time.client import mark_to_wire
from noted_time.values import Note
from tests.simulation.leased import Database, LeasedStore
from tests.simulation.virtual import VirtualLoop, process
from tests.support.following import Answer, broken

START_MS = 1_700_000_000_000
TIMEOUT_MS = 10_000
REPLICAS = ("a", "b")
STREAMS = ("s", "t")
WRITERS = ("u", "v", "w")
NOTES = 8
LAST = 1000
"""The time that all writers note in the end."""

PROGRESS_S = 2.5 * TIMEOUT_MS / 1000


class Noted(NamedTuple):
    """A note that was sent: all events below the time lie below the offset."""

    time: int
    offset: int


@dataclass
class History:
    """What the writers sent and what was acknowledged, and the marks that were committed."""

    violations: list[str]
    sent: dict[tuple[str, str], list[Noted]] = field(default_factory=lambda: defaultdict(list))
    acked: dict[tuple[str, str], Noted] = field(default_factory=dict)
    missing: set[tuple[str, str]] = field(default_factory=set)
    marks: dict[str, list[Mark]] = field(default_factory=lambda: defaultdict(list))

    def appended(self, stream: str, mark: Mark) -> None:
        """Judge a mark by what was sent and acknowledged until now."""
        before = self.marks[stream][-1] if self.marks[stream] else None
        self.marks[stream].append(mark)
        self.missing |= {(stream, writer) for writer in mark.excluded}
        for of, writer in self.acked:
            if of != stream or (before is not None and mark.lower == before.lower):
                continue
            segment = WRITERS.index(writer)
            offset = mark.cut.offsets.get(segment, 0)
            if (stream, writer) in self.missing:
                continue
            vouched = [each.offset for each in self.sent[of, writer] if each.time >= mark.lower]
            self.law(bool(vouched), f"{stream}: {mark.lower} is above all that {writer} noted")
            self.law(
                not vouched or offset >= vouched[0],
                f"{stream}: rows of {writer} below {mark.lower} lie above the cut {offset}",
            )

    def law(self, holds: bool, sentence: str) -> None:  # noqa: FBT001 - the law itself
        """Keep the sentence if it does not hold."""
        if not holds:
            self.violations.append(sentence)


class Schedule:
    """A run from one seed; `run` returns what it broke."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.is_calm = False
        self.loop = VirtualLoop(self._delay, lambda: self.chance.random() < 0.5)
        self.database = Database(self.loop.time, self._committed, self._fails)
        self.history = History(self.database.violations)
        self.controllers: dict[str, Controller] = {}
        self._stores: dict[str, LeasedStore] = {}
        self._hangs: dict[str, float] = {}
        self._sequences: dict[tuple[str, str], int] = defaultdict(int)

    def run(self) -> list[str]:
        """Play it to its end; returns the violations."""
        try:
            self.loop.run_until_complete(self._play())
        finally:
            for name in [*REPLICAS, ""]:
                self.loop.kill(name)
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
        return self.history.violations

    async def _play(self) -> None:
        for name in REPLICAS:
            await self._start(name)
        await asyncio.sleep(1.5)
        for stream in STREAMS:
            await self._until_done(lambda c, s=stream: c.put_stream(s, SETTINGS))
        writing = [self._write(stream, writer) for stream in STREAMS for writer in WRITERS]
        faults = asyncio.create_task(self._faults())
        await asyncio.gather(*writing)
        faults.cancel()
        await self._calm_down()
        self._judge_the_end()

    async def _calm_down(self) -> None:
        """End the faults, and have all writers note a last time."""
        self.is_calm = True
        self._hangs.clear()
        for name in REPLICAS:
            if name not in self.controllers:
                await self._start(name)
        await asyncio.sleep(PROGRESS_S)
        last = [
            self._deliver(s, w, self.history.sent[s, w][-1].offset)
            for s in STREAMS
            for w in WRITERS
        ]
        await asyncio.gather(*last)
        await asyncio.sleep(1.0)

    def _judge_the_end(self) -> None:
        """Whether what was acknowledged is kept, and time went on."""
        for record in self.database.kept.streams():
            kept = {each.writer: each for each in self.database.kept.members(record.id)}
            for (stream, writer), acked in self.history.acked.items():
                if stream == record.name:
                    time = kept[writer].times.get("default", -1) if writer in kept else None
                    self.history.law(
                        time is not None and time >= acked.time,
                        f"{stream}: {writer} was told that {acked.time} is durable, kept is {time}",
                    )
            marks = self.history.marks[record.name]
            self.history.violations += broken([Answer(0, [*map(mark_to_wire, marks)])])
            lower = marks[-1].lower if marks else None
            self.history.law(lower == LAST, f"{record.name}: time stands at {lower} in the calm")

    async def _start(self, name: str) -> None:
        token = process.set(name)
        skew = self.chance.randrange(-200, 200)
        clocks = Clocks(
            wall_ms=lambda: START_MS + skew + int(self.loop.time() * 1000),
            steady_ms=lambda: int(self.loop.time() * 1000),
            chance=Random(self.chance.random()),
        )
        self._stores[name] = store = LeasedStore(self.database)
        controller = Controller(store, clocks)
        controller.called_at(name)
        try:
            await controller.start()
            self.controllers[name] = controller
        finally:
            process.reset(token)

    def _kill(self, name: str) -> None:
        """End a process; the database may notice at once, or by its silence."""
        self.controllers.pop(name, None)
        self.loop.kill(name)
        session = self._stores[name].session
        if session is not None and self.chance.random() < 0.5:
            self.database.end(session)

    async def _faults(self) -> None:
        """Kill controllers, end their sessions, and have their database hang."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.1, 2.5))
            name = self.chance.choice(REPLICAS)
            fault = self.chance.choice(("kill", "session", "hang"))
            if name not in self.controllers:
                await self._start(name)
            elif fault == "kill":
                self._kill(name)
            elif fault == "hang":
                self._hangs[name] = self.loop.time() + self.chance.uniform(0.5, 5.0)
            elif (session := self._stores[name].session) is not None:
                self.database.end(session)

    async def _write(self, stream: str, writer: str) -> None:
        """Write and note, with pauses of which some are longer than the timeout."""
        time, offset = 0, 0
        for _ in range(NOTES):
            longest = 0.8 if self.chance.random() < 0.95 else 1.5 * TIMEOUT_MS / 1000
            await asyncio.sleep(self.chance.uniform(0, longest))
            time, offset = time + self.chance.randrange(6), offset + self.chance.randrange(4)
            await self._deliver(stream, writer, offset, time)

    async def _deliver(self, stream: str, writer: str, offset: int, time: int = LAST) -> None:
        """Send a note until it is answered, over a network that loses, delays and doubles."""
        self.history.sent[stream, writer].append(Noted(time, offset))
        position = {WRITERS.index(writer): offset}
        for _ in range(1000 if self.is_calm else 6):
            self._sequences[stream, writer] += 1
            note = Note(writer, time, position, sequence=self._sequences[stream, writer])
            if not self.is_calm and self.chance.random() < 0.1:
                again = self._ask(lambda c, n=note: c.note(stream, [n]), 4.0)
                self._later(again)
            answer = await self._ask(lambda c, n=note: c.note(stream, [n]), 0.05)
            if answer is not None and isinstance(answer[0], Accepted):
                self.history.acked[stream, writer] = Noted(time, offset)
                self.history.missing.discard((stream, writer))
                return
            await asyncio.sleep(self.chance.uniform(0, 0.5))

    def _later(self, asked: Coroutine[Any, Any, Any]) -> None:
        asyncio.get_running_loop().create_task(asked)

    async def _ask(self, call: Any, delay_s: float) -> Any:  # noqa: ANN401 - as the call's
        """Ask the controllers in turn, the owner answers; `None` if the answer is not known."""
        await asyncio.sleep(self.chance.uniform(0, delay_s))
        if not self.is_calm and self.chance.random() < 0.05:
            return None
        for name in self.chance.sample(REPLICAS, len(REPLICAS)):
            if name not in self.controllers:
                continue
            try:
                async with asyncio.timeout(5.0):
                    answer = await call(self.controllers[name])
            except (NotOwner, StoreUnavailable, TimeoutError):
                continue
            return None if not self.is_calm and self.chance.random() < 0.05 else answer
        return None

    async def _until_done(self, call: Any) -> None:  # noqa: ANN401 - as `_ask`
        while await self._ask(call, 0.2) is None:
            pass

    def _delay(self, name: str) -> float:
        usual = self.chance.uniform(0.0005, 0.01)
        return max(usual, self._hangs.get(name, 0.0) - self.loop.time())

    def _fails(self) -> bool:
        return not self.is_calm and self.chance.random() < 0.02

    def _committed(self, batch: Transaction) -> None:
        for each in batch.marks:
            self.history.appended(self._name_of(each), each.mark)

    def _name_of(self, mark: AppendedMark) -> str:
        records = self.database.kept.streams()
        return next(each.name for each in records if each.id == mark.stream_id)


SETTINGS = {"writer_timeout_ms": TIMEOUT_MS, "mark_interval_ms": 0}
