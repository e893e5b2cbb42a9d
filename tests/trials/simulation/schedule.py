"""A schedule: writers, operators, controllers and faults, all chosen from a seed."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from controller.aggregation import operations
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.aggregation.owned_streams import NotOwner, bucket_of
from controller.service.controller import Controller
from controller.store.port import LEASE_MS, StoreUnavailable
from controller.store.records import AppendedMark, BucketClock, ChangeSet
from noted_time.client import position_to_wire
from noted_time.coding import convert_to_json
from noted_time.rules import SealRequest
from noted_time.values import (
    Accepted,
    Mark,
    Note,
    NotedTimeError,
    NotLive,
    Refused,
    ScaleEvent,
    State,
    UnknownWriter,
)
from tests.trials import laws
from tests.trials.facts import Answer, Claim, Look
from tests.trials.judge import judge
from tests.trials.laws import DOMAIN
from tests.trials.simulation import clients
from tests.trials.simulation.arena import Arena, play
from tests.trials.simulation.clients import Pair
from tests.trials.simulation.commits import Commits, Stream
from tests.trials.simulation.faults import break_things
from tests.trials.simulation.leased import BUCKETS, SILENT_S
from tests.trials.simulation.pen import Pen

TIMEOUT_S = 6.0
INTERVAL_MS = 1000
STREAMS = ("s", "t")
WRITERS = ("u", "v", "w")
EXPECTED = "x"
NOTES = 8
HALF = 500
LAST = 1000
"""The times that one writer, and then all of them note in the end."""

PAIR_EVERY = 8
"""Of so many schedules one has clients at work, which takes longer."""

SCALES = 2
"""How often a stream scales before the end, and again in the end."""

TURN = ("heartbeat", "acquire", "release", "load", "clocks")
"""The calls of a turn, during which no writer can be heard."""


class Schedule:
    """A run from one seed. `run` returns the violations; `checked` counts checks by law."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.checked = Counter[str]()
        self.sent: defaultdict[tuple[str, str], list[Note]] = defaultdict(list)
        noted_times = self.sent[STREAMS[0], clients.WRITER]
        self.arena = Arena(chance, self._judge_commit, noted_times.append, self._read_after_pause)
        self.pens: dict[tuple[str, str], Pen] = {}
        for stream in STREAMS:
            for number, writer in enumerate(WRITERS):
                self.pens[stream, writer] = Pen(stream, writer, number)
        self.commits = self._judge_anew()
        self.answers: defaultdict[str, list[Answer]] = defaultdict(list)
        self._looks: defaultdict[str, list[Look]] = defaultdict(list)
        self._turns: dict[int, tuple[str, float, float, int]] = {}
        self._doubled: list[asyncio.Task[object]] = []
        self._scales: Counter[str] = Counter()
        self._is_lossy = self.arena.happens("lost-commits")
        has_pair = seed % PAIR_EVERY == PAIR_EVERY // 2 - 1 and not self._is_lossy
        self._pair = self._make_pair() if has_pair else None

    def run(self) -> list[str]:
        """Play it to its end; returns the violations."""
        play(self.arena, self._play())
        return self.arena.database.violations

    def _judge_anew(self) -> Commits:
        return Commits(self.sent, self.arena.database.violations, self.checked)

    async def _play(self) -> None:
        await self.arena.start_all()
        await asyncio.sleep(1.5)
        for stream in STREAMS:
            settings = {
                "writer_timeout_ms": int(TIMEOUT_S * 1000),
                "mark_interval_ms": self.chance.choice((0, INTERVAL_MS)),
                "returning_writer": self.chance.choice(("wait", "exclude")),
                "expected_writers": self.chance.choice(((), (EXPECTED,))),
                "max_segments": len(WRITERS) + SCALES + bool(self._pair),
            }
            await self.arena.ask_until_answered(partial(_put, stream, settings))
        log_length = len(self.arena.database.log)
        other_acts = [break_things(self.arena), self._operate(), self._follow()]
        beside = [asyncio.create_task(act) for act in other_acts]
        writing = [*map(self._write, self.pens.values())]
        if self._pair is not None:
            writing.append(self._pair.write(NOTES))
            self._pair.start_reading()
        await asyncio.gather(*writing)
        for task in beside[:2]:
            task.cancel()
        await self._calm_down(log_length)
        beside[2].cancel()

    # What writers, operators and followers do

    async def _write(self, pen: Pen) -> None:
        """Write and note, leave and return; some pauses are longer than the timeout."""
        chance = self.chance
        await asyncio.sleep(chance.choice((0.0, 0.0, chance.uniform(0, TIMEOUT_S))))
        for number in range(NOTES):
            longest = 0.8 if chance.random() < 0.95 else 1.6 * TIMEOUT_S
            await asyncio.sleep(chance.uniform(0, longest))
            pen.write(chance)
            act = chance.random()
            if not number or act < 0.75:
                await self._deliver(pen, pen.time)
            elif act < 0.9:
                await self._deliver(pen, None, "finished" if act < 0.79 else "idle")
                await asyncio.sleep(chance.uniform(0, 1.5))
            elif act < 0.95:
                await self._restart(pen)
            elif self._scales[pen.stream] < SCALES:
                self._scales[pen.stream] += 1
                await self._scale(pen)

    def _make_pair(self) -> Pair:
        """Return the asynchronous clients of a stream."""
        url = ",".join(self.arena.urls)
        stream = STREAMS[0]

        def check_acknowledged(pen: Pen) -> None:
            (kept_member,) = (
                each.members.get(pen.writer)
                for each in self.commits.streams.values()
                if each.record.name == stream
            )
            members = {}
            if kept_member is not None:
                position = position_to_wire(kept_member.position)
                members[kept_member.writer] = {"times": kept_member.times, "position": position}
            claims = {pen.writer: Claim({DOMAIN: pen.time}, pen.position)}
            self.commits.check(laws.notes_last, members, claims)

        return Pair(stream, url, self.arena.network, self.chance, check_acknowledged)

    async def _restart(self, pen: Pen) -> None:
        """Have another process take the writer's place; the one before notes once more."""
        former = pen.session
        pen.session += 1
        pen.has_name = False
        if await self._deliver(pen, pen.time):
            pen.sequence += 1
            late = Note(pen.writer, HALF, sequence=pen.sequence, session=str(former))
            answer = await self.arena.ask(partial(_note, pen.stream, late), 0.05)
            is_accepted = answer is not None and isinstance(answer[0], Accepted)
            self.commits.check(laws.older_processes_are_fenced, accepted=is_accepted)

    async def _scale(self, pen: Pen) -> None:
        """Go on in another segment, and name it before its predecessors."""
        old_segment = pen.segment
        pen.segment += 10
        pen.position = {**pen.position, pen.segment: 0}
        if await self._deliver(pen, pen.time):
            final = pen.position[old_segment] + self.chance.randrange(3)
            event = ScaleEvent({old_segment: final}, {pen.segment: (old_segment,)})
            await self._change(pen.stream, operations.scale, ANONYMOUS_ORDER, event)
            pen.position |= event.sealed

    async def _operate(self) -> None:
        """Remove and hold writers, and change settings."""
        chance = self.chance
        while True:
            await asyncio.sleep(chance.uniform(0.5, 4.0))
            stream = chance.choice(STREAMS)
            writer = chance.choice(WRITERS)
            act = chance.random()
            if act < 0.3:
                await self._change(stream, operations.remove, ANONYMOUS_ORDER, writer)
            elif act < 0.5:
                until = chance.randrange(500, 3000)
                await self._change(
                    stream, operations.suspend_timeout, ANONYMOUS_ORDER, writer, until
                )
            else:
                timeout_ms = int(TIMEOUT_S * chance.choice((500, 1000)))
                settings: dict[str, Any] = {"writer_timeout_ms": timeout_ms}
                if act > 0.8:
                    settings = {"domains": ("default", "ship")}
                await self.arena.ask(partial(_put, stream, settings), 0.05)

    async def _follow(self) -> None:
        """Ask any controller for marks after the last one."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))
            for stream in STREAMS:
                self._read(stream, self._find_last_seq(stream))

    def _find_last_seq(self, stream: str) -> int:
        answers = self.answers[stream]
        if not answers or not answers[-1].marks:
            return 0
        return int(answers[-1].marks[-1]["seq"])

    def _read(self, stream: str, after: int) -> None:
        for name in self.chance.sample(self.arena.replicas, len(self.arena.replicas)):
            if self._read_at(name, stream, after):
                return

    def _read_at(self, name: str, stream: str, after: int) -> bool:
        """Return whether the controller answered."""
        if name not in self.arena.controllers or name in self.arena.loop.frozen:
            return False
        try:
            history = self.arena.controllers[name].stream(stream).history(None)
        except (NotOwner, StoreUnavailable, NotedTimeError):
            return False
        now = self.arena.loop.time()
        if now - self.arena.ended_at[name] > LEASE_MS / 1000:  # by which it has heard of it
            self._looks[stream].append(Look(now, now, history.last_lower))
        marks = [convert_to_json(mark) for mark in history.after(after, 1000)]
        if marks:
            self.answers[stream].append(Answer(after, marks, history.first_seq))
        return True

    # Their requests, over a network that loses, delays and doubles

    async def _deliver(self, pen: Pen, time: int | None, state: State = "live") -> bool:
        """Send a note until it is answered; returns whether it was."""
        pen.time = pen.time if time is None else time
        for _ in range(1000 if self.arena.is_calm else 6):
            note = pen.note(time, state)
            begun_at = self.arena.loop.time()
            self.sent[pen.stream, pen.writer].append(note)
            if self.arena.happens("double"):
                second_try = self.arena.ask(partial(_note, pen.stream, note), 4.0)
                self._doubled.append(asyncio.create_task(second_try))
            answer = await self.arena.ask(partial(_note, pen.stream, note), 0.05)
            if answer is not None:
                if state == "live" or isinstance(answer[0], Accepted):
                    self.commits.judge_answer(pen.stream, note, answer[0])
                pen.has_name = True
                if isinstance(answer[0], Accepted):
                    look = Look(begun_at, self.arena.loop.time(), answer[0].lower)
                    self._looks[pen.stream].append(look)
                return True
            await asyncio.sleep(self.chance.uniform(0, 0.5))
        return False

    async def _change(self, stream: str, *arguments: Any) -> None:  # noqa: ANN401 - as `Controller.change`
        """Have a change made; operators may name a writer that is not there."""

        async def change(controller: Controller) -> object:
            try:
                return await controller.change(stream, *arguments)
            except (UnknownWriter, NotLive) as refusal:
                return refusal

        await self.arena.ask_until_answered(change)

    # Faults

    async def _read_after_pause(self, name: str) -> None:
        """Read what a controller answers first to readers that waited while it was paused."""
        for _ in range(5):
            await asyncio.sleep(self.chance.uniform(0, 0.005))
            for stream in STREAMS:
                self._read_at(name, stream, self._find_last_seq(stream))

    def _lose_commits(self, first_commit: int) -> dict[str, dict[str, Mark | None]]:
        """Lose the last commits; returns the last marks of the streams that each controller had."""
        had = {}
        for name, controller in self.arena.controllers.items():
            streams = controller._committer.streams
            had[name] = {stream.id: stream.histories[DOMAIN].last for stream in streams}
        commits = len(self.arena.database.log)
        self.arena.database.lose(
            self.chance.randrange(max(first_commit, commits - 12), commits + 1)
        )
        for name in self.arena.controllers:
            self.arena.stores[name].acquired.clear()
        self.commits = self._judge_anew()
        for batch in self.arena.database.log:
            self.commits.judge_batch(batch, self.arena.loop.time() + 3600)
        self.answers.clear()
        self._turns.clear()
        return had

    def _judge_commit(self, url: str, batch: ChangeSet) -> None:
        arena = self.arena
        loop = self.arena.loop
        self.commits.judge_batch(batch, loop.time() + arena.skipped_ms[""] / 1000)
        spent_s = sum(loop.spent[url, name] for name in TURN)
        asked_at = loop.asked_at
        for clock in batch.list_puts(BucketClock):
            bucket = clock.number
            ms = clock.served_ms
            was, earlier_at, was_spent, was_ms = self._turns.get(bucket, ("", 0.0, 0.0, 0))
            most_ms = (asked_at - earlier_at - spent_s + was_spent) * 1000 + 2
            if was == url and arena.disturbed_at[url] < earlier_at:
                self.commits.check(laws.service_clocks_advance, was_ms, ms, was_ms + most_ms)
            self._turns[bucket] = url, asked_at, spent_s, ms

    # The end

    async def _calm_down(self, first_commit: int) -> None:
        """End the faults, and have one writer note, then all; time follows them."""
        await self.arena.calm_down()
        for task in self._doubled:
            task.cancel()
        had = self._lose_commits(first_commit) if self._is_lossy else {}
        await self.arena.start_all()
        first = [self.pens[stream, self.chance.choice(WRITERS)] for stream in STREAMS]
        await asyncio.gather(*(self._deliver(pen, HALF) for pen in first))
        calm_s = SILENT_S + TIMEOUT_S + 1.0
        restarts = self.chance.uniform(0, calm_s - 2.0)
        await asyncio.sleep(restarts)
        await self.arena.stop(self.chance.choice(self.arena.replicas))
        await asyncio.sleep(calm_s - restarts)
        self._judge_progress(HALF)
        if self._is_lossy:
            self.answers.clear()  # some are of controllers that had not noticed
        last = [self._deliver(pen, LAST) for pen in self.pens.values()]
        await asyncio.gather(*last, *([self._pair.reach(LAST)] if self._pair else []))
        await asyncio.sleep(1.5 * INTERVAL_MS / 1000)
        self._judge_progress(LAST)
        owned_counts = Counter(map(id, self.arena.database.owners.values()))
        sessions = len(self.arena.database.sessions)
        self.commits.check(laws.buckets_are_shared, [*owned_counts.values()], BUCKETS, sessions)
        for name, marks_held in had.items():
            self._judge_report(name, marks_held)
        if self._pair is not None:
            self._pair.reading.cancel()  # as a truncation leaves a gap
        if not self._is_lossy:
            await asyncio.gather(*map(self._end, self.commits.streams.values()))
        for stream in STREAMS:
            self._read(stream, 0)
            self._judge_answers(self.answers[stream])
            looks = [] if self._is_lossy else self._looks[stream]
            self.commits.check(laws.lowers_never_fall, looks)
        if self._pair is not None:
            last_answer = self.answers[self._pair.stream][-1]
            marks = await self._pair.read_all(last_answer.first)
            self._judge_answers(self._pair.answers)
            self.commits.check(laws.replicas_agree, last_answer.marks, marks)

    async def _end(self, stream: Stream) -> None:
        """Truncate the stream, which gives room for new segments, and seal it."""
        name = stream.record.name
        last = stream.last
        await self._change(
            name, operations.truncate, ANONYMOUS_ORDER, last.cut.offsets if last else {}
        )
        room = SCALES - self._scales[name] + sum(len(scaling.sealed) for scaling in stream.scalings)
        for writer in WRITERS[:room] if len(stream.record.settings.domains) == 1 else ():
            await self._scale(self.pens[name, writer])
        await self.arena.ask_until_answered(lambda c: c.seal(name, ANONYMOUS_ORDER, SealRequest()))
        self.commits.check(laws.losses_are_reported, 0, self._list_reported(stream.record.id))

    def _judge_progress(self, time: int) -> None:
        for stream in self.commits.streams.values():
            lower = stream.last.lower if stream.last else None
            self.commits.check(laws.watermarks_advance, lower, time, latest=time)

    def _judge_answers(self, answers: list[Answer]) -> None:
        broken_laws = judge(answers=answers)
        self.commits.violations += map(str, broken_laws)
        self.commits.checked["answers to followers"] += len(answers)

    def _judge_report(self, name: str, had: dict[str, Mark | None]) -> None:
        """Whether a controller that loads a stream without the last mark it had reports that."""
        for stream in self.commits.streams.values():
            key = stream.record.id
            held_mark = had.get(stream.record.id)
            acquired_commit = self.arena.stores[name].acquired.get(
                bucket_of(stream.record.name, BUCKETS)
            )
            if acquired_commit is None or held_mark is None:
                continue
            log = self.arena.database.log[:acquired_commit]
            written_times = set()
            for commit in log:
                for appended_mark in commit.list_puts(AppendedMark):
                    if (appended_mark.stream_id, appended_mark.domain) == (key, DOMAIN):
                        written_times.add(appended_mark.mark.written_at)
            if held_mark.written_at not in written_times:
                self.commits.check(
                    laws.losses_are_reported, held_mark.seq, self._list_reported(key)
                )

    def _list_reported(self, stream_id: str) -> list[int]:
        """Return the last seqs that controllers reported as lost."""
        changes = self.arena.database.kept.changes(stream_id, before=None, limit=1000)
        return [
            change.old_values["seq"]
            for change in changes
            if change.action == "went_back" and change.old_values
        ]


async def _note(stream: str, note: Note, controller: Controller) -> list[Accepted | Refused]:
    return await controller.note(stream, [note])


async def _put(stream: str, settings: Mapping[str, Any], controller: Controller) -> object:
    return await controller.put_stream(stream, settings)
