"""All actors together, over any clock and any transport, and the laws that hold for them."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx

from tests.trials.actors.administering import Administering, set_writer_timeout
from tests.trials.actors.calls import Caller, NoAnswerError, wait_until_true
from tests.trials.actors.collecting import ask_all
from tests.trials.actors.history import History, NoteRecorder, now
from tests.trials.actors.judging import judge
from tests.trials.actors.load import (
    CONTROL,
    EXCLUDING,
    SCALED,
    SEALED,
    TRUNCATED,
    WRITER_TIMEOUT_S,
    streams,
)
from tests.trials.actors.reading import Reading
from tests.trials.actors.writing import Writing
from tests.trials.judge import check_law
from tests.trials.laws import ANSWERS, watermarks_advance


class Place(Protocol):
    """Where actors work: the replicas that they call, and a client for each caller."""

    @property
    def urls(self) -> list[str]: ...

    def client(self) -> httpx.AsyncClient: ...


class Workload:
    """Writers, readers and administrators of several streams, and what replicas promise them."""

    moves_s = 60.0

    def __init__(self, place: Place, writer_timeout_s: float = WRITER_TIMEOUT_S) -> None:
        self.history = History(streams())
        self._place = place
        self._writer_timeout_s = writer_timeout_s

    @asynccontextmanager
    async def work(self, record: NoteRecorder, chance: random.Random) -> AsyncIterator[None]:
        """Have all write and read, and bring time to its end."""
        self._chance = chance
        written_event = asyncio.Event()
        read_event = asyncio.Event()
        writing = Writing(self.history, record, written_event)
        for name, stream in self.history.streams.items():
            body = {
                "domains": stream.domains,
                "mark_interval_ms": stream.mark_interval_ms,
                "returning_writer": stream.returning_writer,
                "writer_timeout_ms": int(self._writer_timeout_s * 1000),
                "max_time_ahead_ms": None,  # a fault sets the wall clocks of controllers
            }
            await self._caller().call("PUT", f"/v1/streams/{name}", json=body)
        async with asyncio.TaskGroup() as tasks:
            work = (*self._writers(writing), *self._administrators(written_event))
            writers = [tasks.create_task(self._note_silence(act)) for act in work]
            for reader in self._readers(read_event):
                tasks.create_task(self._note_silence(reader))
            yield
            written_event.set()
            await asyncio.wait(writers)
            await self._note_silence(self._bring_time_to_its_end(writing))
            await self._note_silence(self._seal(find_last_time(self.history)))
            read_event.set()

    async def judge(self) -> None:
        """Ask the replicas for all facts, and check the laws."""
        callers = [self._caller(url) for url in self._place.urls]
        answers = {
            name: await ask_all(callers, stream, self.history)
            for name, stream in self.history.streams.items()
        }
        judge(self.history, answers)

    def _caller(self, *urls: str) -> Caller:
        """Return one more client, of all replicas or of these."""
        chance = random.Random(self._chance.random())
        return Caller(self._place.client(), urls or self._place.urls, self.history, chance)

    def _writers(self, writing: Writing) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the work of all writers: most note alone, some four together, some come and go."""
        for stream in self.history.streams.values():
            counts = [2] if stream.name in (CONTROL, EXCLUDING) else [1, 1, 1, 1, 4]
            for count in counts:
                yield writing.write(self._caller(), stream, count)
            if stream.name in (CONTROL, EXCLUDING):
                self.history.absences[stream.name] = Counter()
                yield writing.come_and_go(self._caller(), self._caller(), stream)
            if stream.name == CONTROL:
                yield writing.fall_silent(self._caller(), stream)

    def _administrators(self, written_event: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the work of the tasks that scale and truncate streams."""
        administering = Administering(self.history, written_event)
        for name in SCALED:
            yield administering.scale(self._caller(), self.history.streams[name])
        for name in TRUNCATED:
            yield administering.truncate(self._caller(), self.history.streams[name])

    def _readers(self, read_event: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the work of all readers: two that follow each domain, a group for each stream."""
        reading = Reading(self.history, read_event)
        for key in self.history.chains:
            for _ in range(2):
                yield reading.follow(self._caller(), *key)
        for stream in self.history.streams.values():
            yield reading.read(self._caller(), stream)

    async def _note_silence(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; if no replica answers any more, that is the finding."""
        try:
            await work
        except NoAnswerError as error:
            self.history.broke(ANSWERS, "all replicas", error)

    async def _bring_time_to_its_end(self, writing: Writing) -> None:
        """Have every live writer note the same last time, and wait until time is there.

        Only in the control stream a writer may still be excluded, and only until then.
        """
        last = find_last_time(self.history)
        streams = self.history.streams.values()
        await set_writer_timeout(
            self._caller(), sorted(self.history.streams.keys() - {CONTROL}), END_S
        )
        await asyncio.gather(*(writing.finish(self._caller(), stream, last) for stream in streams))
        if not await wait_until_true(lambda: not find_late(self.history, last), self.moves_s):
            self.history.broke(watermarks_advance, "the end", find_late(self.history, last))
        await set_writer_timeout(self._caller(), [CONTROL], END_S)

    async def _seal(self, end: int) -> None:
        """Seal a stream at that time, and have its followers see the final marks."""
        stream = self.history.streams[SEALED]
        chains = self.history.chains_of(stream).values()
        for chain in chains:
            chain.send(end, now())
        body = {"final_times": dict.fromkeys(stream.domains, end)}
        await self._caller().call("POST", f"/v1/streams/{SEALED}/seal", json=body)
        for writer in stream.writers:
            writer.state = "finished" if writer.state != "new" else "new"
        if not await wait_until_true(
            lambda: all(chain.lower == end for chain in chains), self.moves_s
        ):
            self.history.broke(watermarks_advance, SEALED, "followers lack the final mark")

    def count_tried(self) -> dict[str, int]:
        """Return how much there was of everything."""
        counts = self.history.counts
        chains = self.history.chains.values()
        answer_count = 0
        for chain in chains:
            answer_count += sum(bool(answer.marks) for answer in chain.answers)
        return {
            **{name: counts[name] for name in COUNTED},
            "events written": sum(len(stream.events) for stream in self.history.streams.values()),
            "marks checked": sum(len(chain.seen) for chain in chains),
            "windows checked": sum(len(chain.windows) for chain in chains),
            "lowers answered": sum(len(chain.looks) for chain in chains),
            "answers with marks": answer_count,
        }


END_S = 600.0
"""Longer than the end of a trial takes, in which writers are silent."""

COUNTED = (
    *("notes acknowledged", "notes sent more than once", "writers away and back"),
    *("scalings", "marks truncated"),
)
HAPPENED = (
    "notes acknowledged",
    "scalings",
    "writers away and back",
    "marks truncated",
    "marks checked",
    "windows checked",
)
"""What there has to be some of, or nothing was proved."""

NOTHING = -1
"""Before every time that these writers note."""


def find_last_time(history: History) -> int:
    """Return a time above every noted one."""
    last = NOTHING
    for stream in history.streams.values():
        for writer in stream.writers:
            last = max([last, *writer.promised.values()])
    return last + 1


def find_late(history: History, last: int) -> list[str]:
    """Return the domains whose lower is below the time that is due, with both."""
    late_domains = []
    for (stream, domain), chain in history.chains.items():
        due = _find_due(history, stream, domain, last)
        for broken_law in check_law(watermarks_advance, chain.lower or NOTHING, due):
            late_domains.append(f"{stream}/{domain}: {broken_law.account}")
    return late_domains


def _find_due(history: History, stream: str, domain: str, last: int) -> int:
    """Return `last`, which every live writer has noted, or the highest time if none lives."""
    silent = history.silent.get(stream)
    writers = [writer for writer in history.streams[stream].writers if writer.name != silent]
    if any(writer.state == "live" for writer in writers):
        return last
    return max((writer.acknowledged.get(domain, NOTHING) for writer in writers), default=NOTHING)
