"""One trial from the start of the replicas to the verdict."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.administering import Administering
from tests.chaos.arena import Arena
from tests.chaos.calls import Caller, NoAnswerError, comes_true
from tests.chaos.checks import last_time, late
from tests.chaos.collecting import ask_all, disagreements
from tests.chaos.faults import FAULTS, WRITER_TIMEOUT_S
from tests.chaos.history import History, Journal, now
from tests.chaos.pulse import Pulse
from tests.chaos.reading import Reading
from tests.chaos.scaling import CONTROL, EXCLUDING, SCALED, SETTINGS, TRUNCATED, streams
from tests.chaos.turns import Plan, Turns
from tests.chaos.verdict import judge, tried, verdict
from tests.chaos.writing import Writing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.chaos.verdict import Verdict
    from tests.support.postgres import Server


MOVES_S = 60.0
"""Time that stands this long after a fault was mended is stuck."""


@dataclass
class Trial:
    """Writers and readers at work while one turn of faults follows another."""

    arena: Arena
    history: History
    journal: Journal
    chance: random.Random
    turns: Turns[Arena]
    announce: Callable[[str], None]
    written: asyncio.Event = field(default_factory=asyncio.Event)
    read: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Do it all; returns when every law has been judged."""
        for name, settings in SETTINGS.items():
            body = settings | {
                "writer_timeout_ms": int(WRITER_TIMEOUT_S * 1000),
                "max_time_ahead_ms": None,  # a fault sets the wall clocks of controllers
            }
            await self._caller().call("PUT", f"/v1/streams/{name}", json=body)
        async with asyncio.TaskGroup() as tasks:
            work = (*self._writers(), *self._administrators())
            writers = [tasks.create_task(self._quietly(each)) for each in work]
            for each in self._readers():
                tasks.create_task(self._quietly(each))
            await self.turns.run()
            self.written.set()
            await asyncio.wait(writers)
            await self._quietly(self._bring_time_to_its_end())
            self.read.set()
        await self._quietly(self._judge())

    # Work

    def _caller(self) -> Caller:
        """Return one more client."""
        chance = random.Random(self.chance.random())
        return Caller(self.arena.client(), self.arena.urls, self.history, chance)

    def _writers(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work of all writers: most note alone, some four together, some come and go."""
        writing = Writing(self.history, self.journal, self.written)
        self._writing = writing
        work = []
        for stream in self.history.streams.values():
            chances = [random.Random(self.chance.random()) for _ in range(6)]
            if stream.name in (CONTROL, EXCLUDING):
                work.append(writing.write(self._caller(), stream, 2, chances[0]))
                self.history.absences[stream.name] = Counter()
                pair = self._caller(), self._caller()
                work.append(writing.come_and_go(*pair, stream, chances[1]))
            if stream.name == CONTROL:
                silent = stream.writer(chances[2])
                self.history.silent[stream.name] = silent.name
                work.append(writing.fall_silent(self._caller(), stream, silent))
            elif stream.name != EXCLUDING:
                for count, chance in zip((1, 1, 1, 1, 4), chances, strict=False):
                    work.append(writing.write(self._caller(), stream, count, chance))
        return work

    def _administrators(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the work of the tasks that scale and truncate streams."""
        administering = Administering(self.history, self.written)
        work = {administering.scale: SCALED, administering.truncate: TRUNCATED}
        for do, names in work.items():
            for name in names:
                chance = random.Random(self.chance.random())
                yield do(self._caller(), self.history.streams[name], chance)

    def _readers(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work of all readers: two that follow each domain, a group for each stream."""
        reading = Reading(self.history, self.read)
        followers = [
            reading.follow(self._caller(), *where) for where in self.history.chains for _ in "ab"
        ]
        groups = [
            reading.read(self._caller(), stream, random.Random(self.chance.random()))
            for stream in self.history.streams.values()
        ]
        return followers + groups

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; if no replica answers any more, that is the finding."""
        try:
            await work
        except NoAnswerError as error:
            self.history.broke("answers", "all replicas", error)

    # The end

    async def _bring_time_to_its_end(self) -> None:
        """Have every live writer note the same last time, and wait until time is there."""
        last, streams = last_time(self.history), self.history.streams.values()
        await asyncio.gather(
            *(self._writing.finish(self._caller(), stream, last) for stream in streams)
        )
        if not await comes_true(lambda: not late(self.history, last), MOVES_S):
            self.history.broke("watermarks advance", "the end", late(self.history, last))

    async def _judge(self) -> None:
        """Ask the replicas what is left of it, and hold that against the truth."""
        self.announce("judging")
        said = {
            name: await ask_all(self.arena.http, self._caller(), stream, self.history)
            for name, stream in self.history.streams.items()
        }
        http, urls = self.arena.http, self.arena.urls
        for stream, domain in self.history.chains:
            marks = said[stream].marks[domain]
            for account in await disagreements(http, urls, stream, domain, marks):
                self.history.broke("replicas agree", f"{stream}/{domain}", account)
        judge(self.history, said)


async def hold(
    server: Server, directory: Path, plan: Plan, announce: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Hold a trial, and leave its history in the directory."""
    begun, chance, history = now(), random.Random(plan.seed), History(streams())
    with Journal(directory) as journal, Pulse() as pulse:
        try:
            async with Arena(server, directory, random.Random(chance.random())) as arena:
                turns = Turns(arena, FAULTS, history, chance, plan, announce, MOVES_S)
                await Trial(arena, history, journal, chance, turns, announce).run()
        finally:
            history.counts.update(arena.counts)
            journal.keep(history)
    return verdict(
        history,
        seed=plan.seed,
        seconds=now() - begun,
        tried=tried(history, arena.kills),
        share=pulse.share,
    )
