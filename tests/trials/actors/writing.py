"""Writers that keep their promises under all faults of the replicas."""

import asyncio
from collections.abc import Mapping
from functools import partial
from itertools import count

from noted_time.client import Json
from tests.trials.actors.calls import Caller, rest
from tests.trials.actors.history import History, NoteRecorder, now
from tests.trials.actors.load import UNNUMBERED, WRITER_TIMEOUT_S, LoadWriter, ScaledStream
from tests.trials.facts import Look
from tests.trials.laws import ANSWERS

PAUSE_S = (0.2, 0.7)
"""How long a writer works between two notes."""

SILENT_AFTER = 3
"""How often the silent writer notes."""

PRESENT_S = (1.0, 6.0)
"""How long a writer that comes and goes is there."""

AWAY_S: Mapping[str, tuple[float, float]] = {
    "silent": (WRITER_TIMEOUT_S + 1.0, WRITER_TIMEOUT_S + 4.0),
    "idle": (1.0, 3.0),
    "finished": (1.0, 3.0),
}
"""In which ways a writer goes, and for how long: without a word it is excluded meanwhile."""

SETTLED_S = 30.0
"""Longer than a request that was given up can lie in a replica, stopped or waiting."""


class Writing:
    """The notes of one trial: makes them, and records their outcome in the history.

    Writers number each try of their requests. The writers of one stream do not, and keep their
    state, live or idle, while a request that they gave up may still be under way.
    """

    def __init__(self, history: History, record: NoteRecorder, stopping: asyncio.Event) -> None:
        self._history = history
        self._record = record
        self._stopping = stopping
        self._requests = count(1)
        self._given_up: dict[str, float] = {}

    async def write(self, caller: Caller, stream: ScaledStream, count: int) -> None:
        """Act as that many writers, which note together, until asked to stop."""
        chance = caller.chance
        writers = [stream.writer(chance) for _ in range(count)]
        while not self._stopping.is_set():
            for index, writer in enumerate(writers):
                if writer.state == "finished":
                    writers[index] = stream.writer(chance)
                writer.is_settled = self._is_settled(stream, writer)
            await self._note_next(caller, stream, *writers)
            await asyncio.sleep(chance.uniform(*PAUSE_S))

    async def come_and_go(self, caller: Caller, other: Caller, stream: ScaledStream) -> None:
        """Act as a writer that is away again and again, and returns under its name.

        It leaves silently, or another client notes through `other` that it is idle, or has left.
        """
        chance = caller.chance
        writer = stream.writer(chance)
        absences = self._history.absences[stream.name]
        while not self._stopping.is_set():
            until = now() + chance.uniform(*PRESENT_S)
            while now() < until and not self._stopping.is_set():
                await self._note_next(caller, stream, writer)
                await rest(self._stopping, chance.uniform(*PAUSE_S))
            way = chance.choice(tuple(AWAY_S))
            if way == "silent":
                absences[writer.name] += 1
            else:
                await self._say_of(other, stream, writer, way)
            await rest(self._stopping, chance.uniform(*AWAY_S[way]))
            self._history.counts["writers away and back"] += 1
            writer.state = "idle"  # it has to join again in any case
        await self._note_next(caller, stream, writer)

    async def _say_of(
        self, caller: Caller, stream: ScaledStream, writer: LoadWriter, state: str
    ) -> None:
        """Note only the state of a writer."""
        notes = [{"writer": writer.name, "state": state}]
        path = f"/v1/streams/{stream.name}/notes"
        answer = await caller.call("POST", path, json=partial(self._request, stream, notes))
        if answer["results"][0]["status"] != "accepted":
            self._history.broke(ANSWERS, stream.name, f"{notes} was answered {answer}")

    async def fall_silent(self, caller: Caller, stream: ScaledStream) -> None:
        """Be a writer that joins, writes a little and is never heard of again."""
        writer = stream.writer(caller.chance)
        self._history.silent[stream.name] = writer.name
        for _ in range(SILENT_AFTER):
            await self._note_next(caller, stream, writer)
            await asyncio.sleep(PAUSE_S[0])

    async def finish(self, caller: Caller, stream: ScaledStream, time: int) -> None:
        """Have every writer that is live note that time, so that time can go there."""
        silent = self._history.silent.get(stream.name)
        last_notes = []
        for writer in stream.writers:
            if writer.state == "live" and writer.name != silent:
                last_notes += [(writer, note) for note in writer.last_notes(time)]
        await self._note(caller, stream, last_notes)

    async def _note_next(self, caller: Caller, stream: ScaledStream, *writers: LoadWriter) -> None:
        notes_by_writer = []
        for writer in writers:
            notes_by_writer += [(writer, note) for note in writer.next_notes()]
        await self._note(caller, stream, notes_by_writer)

    async def _note(
        self, caller: Caller, stream: ScaledStream, notes_by_writer: list[tuple[LoadWriter, Json]]
    ) -> None:
        """Send the same notes until they are answered, as a writer does that does not know."""
        if not notes_by_writer:
            return
        notes = [note for _, note in notes_by_writer]
        sent_at = now()
        for note in notes:
            if "time" in note:
                self._history.chains[stream.name, note["domain"]].send(note["time"], sent_at)
        self._record(sent=sent_at, stream=stream.name, notes=notes)
        path = f"/v1/streams/{stream.name}/notes"
        answer = await caller.call("POST", path, json=partial(self._request, stream, notes))
        if caller.tries and stream.name == UNNUMBERED:
            self._given_up |= {writer.name: caller.tries[-1].at for writer, _ in notes_by_writer}
        results = answer["results"]
        answerer = {"by": caller.url, "tries": caller.tries}
        self._record(answered=now(), stream=stream.name, results=results, **answerer)
        if caller.tries:
            self._history.counts["notes sent more than once"] += len(notes)
        for (writer, note), result in zip(notes_by_writer, results, strict=True):
            self._heard(stream, writer, note, result, caller.begun)

    def _request(self, stream: ScaledStream, notes: list[Json]) -> Json:
        """Return the body of a try, numbered above all earlier ones."""
        if stream.name == UNNUMBERED:
            return {"notes": notes}
        sequence = next(self._requests)
        return {"notes": [note | {"sequence": sequence} for note in notes]}

    def _is_settled(self, stream: ScaledStream, writer: LoadWriter) -> bool:
        """Whether no earlier request of the writer can undo its next note."""
        given_up = self._given_up.get(writer.name) if stream.name == UNNUMBERED else None
        return given_up is None or now() - given_up > SETTLED_S

    def _heard(
        self, stream: ScaledStream, writer: LoadWriter, note: Json, result: Json, begun_at: float
    ) -> None:
        """Record the answer to a request that was made at `begun_at`."""
        place = f"{stream.name}/{note['domain']}"
        if result["status"] != "accepted":
            self._history.broke(ANSWERS, place, f"{note} was refused: {result}")
            return
        self._history.counts["notes acknowledged"] += 1
        chain = self._history.chains[stream.name, note["domain"]]
        chain.looks.append(Look(begun_at, now(), result["lower"]))
        writer.take_answer(note, result)
