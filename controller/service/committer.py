"""Group commit: one task makes all changes of streams, in batches.

Callers submit *work*: a function that changes the streams in memory and adds records to a draft.
The task runs it in order, appends due marks, commits the draft in one transaction and answers the
callers. So each note that was acknowledged before a mark is in its transaction or an earlier one.

If a commit fails, waiting callers are refused and the streams are reloaded, because memory is ahead
of the database. A request that was written nevertheless may be repeated safely. The service clock
returns to the start of the batch, as no note could be accepted meanwhile.

It keeps invariant 3 of docs/explain/theory.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from time import monotonic, perf_counter
from types import GeneratorType
from typing import Any, TypeVar

import structlog

from controller.aggregation.draft import Draft
from controller.aggregation.owned_streams import NotOwner, OwnedStreams, StreamNaming
from controller.service.clocks import Clocks
from controller.service.intervals import Intervals
from controller.service.limits import Limits
from controller.service.ownership import Ownership
from controller.service.polls import LongPollNotifier
from controller.service.telemetry import traces
from controller.service.telemetry.logs import log_changes
from controller.service.telemetry.metrics import Metrics
from controller.store.port import Store, StoreLost, StoreShared, StoreUnavailable
from controller.store.records import AppendedMark, StreamRecord
from noted_time import NotedTimeError
from noted_time.client import Backoff
from noted_time.rules import SLICE_SIZE, Slices

Work = Callable[[OwnedStreams, Draft], Any]

log = structlog.get_logger()
Outcome = TypeVar("Outcome")

BATCH_NOTES = 5000
RETRY_BACKOFF = Backoff(first_s=0.1, cap_s=4.0)

DATABASE_UNAVAILABLE = "the database does not answer; try again"

CONTROLLER_FAILED = "the controller failed (see its log); restart it"

FINAL_FAULTS = StoreLost, StoreShared
"""Errors of the store that only a restart mends."""

OVERDUE = "a commit takes longer than 10 s, and may still succeed; try again"

PROOF_LASTS_S = 2.0  # of a commit or ping
PING_TIMEOUT_S = 4.0
COMMIT_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Job:
    """Work that waits for its commit."""

    work: Work
    answer: asyncio.Future[Any]
    notes: int = 0
    outcome: Any = None
    is_held: bool = False

    def run(self, streams: OwnedStreams, draft: Draft) -> Iterator[None]:
        """Do the work, unless the caller has disconnected. An unexpected error fails the batch.

        It is held if its stream takes no changes now.
        """
        self.is_held = False
        if self.answer.done():
            return
        try:
            self.outcome = self.work(streams, draft)
            if isinstance(self.outcome, GeneratorType):
                self.outcome = yield from self.outcome
        except (NotedTimeError, NotOwner) as refusal:
            self.outcome = refusal
        except StreamNaming:
            self.is_held = True

    def resolve(self) -> None:
        if self.answer.done():
            return
        if isinstance(self.outcome, Exception):
            self.answer.set_exception(self.outcome)
        else:
            self.answer.set_result(self.outcome)


class Committer:
    """The task that changes streams."""

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        notifier: LongPollNotifier,
        metrics: Metrics,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self.streams = OwnedStreams()
        self.ready = False
        self.failed = False
        self.shared: StoreShared | None = None
        self.ownership = Ownership(store, clocks, notifier, self._call_in_thread)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store = store
        self._clocks = clocks
        self._notifier = notifier
        self._metrics = metrics
        self._queue: list[Job] = []
        self._held: list[Job] = []
        self._running: list[Job] = []
        self._notes_waiting = 0
        self._work = asyncio.Event()
        self._intervals = Intervals(self.wake)
        self._closing = False
        self._failures = 0
        self._refusal = DATABASE_UNAVAILABLE
        self._proved_at = -inf
        self._calls_began: list[float] = []
        self._pinging: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the streams and start the task, or raise `StoreUnavailable`.

        If the session is `shared`, nothing is started.
        """
        self._loop = asyncio.get_running_loop()  # each lookup is a system call
        try:
            await self._turn()
        except StoreShared as error:
            self._fail(error)
            return
        self.ready = True
        self._task = asyncio.create_task(self._run(), name="committer")
        self._task.add_done_callback(self._handle_end)

    async def close(self) -> None:
        self._closing = True
        self._work.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.ownership.close()
        self.ready = False
        self._thread.shutdown()

    def submit(
        self, work: Callable[[OwnedStreams, Draft], Outcome | Slices[Outcome]], *, notes: int = 0
    ) -> asyncio.Future[Outcome]:
        """Queue work with that many `notes`; the future has the outcome once it is durable.

        Raises `StoreUnavailable` or `Overloaded`.
        """
        self.check()
        self._check_room(notes)
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        self._queue.append(Job(work, answer, notes))
        self._notes_waiting += notes
        self._work.set()
        return answer

    def check(self) -> None:
        if not self.ready:
            raise StoreUnavailable(self._refusal)
        if self.call_age_s >= COMMIT_TIMEOUT_S:
            raise StoreUnavailable(OVERDUE)

    @property
    def is_serving(self) -> bool:
        return self.ready and self.ownership.is_sure and self.call_age_s < PING_TIMEOUT_S

    def check_alive(self) -> None:
        if self.failed:
            raise StoreUnavailable(self._refusal)

    def wake(self) -> None:
        """Let the task look for due work, and count the time as served."""
        self._work.set()

    async def ping(self) -> None:
        if monotonic() - self._proved_at < PROOF_LASTS_S:
            return
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._ping(), name="ping")
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                await asyncio.shield(self._pinging)
        except TimeoutError:
            raise StoreUnavailable(DATABASE_UNAVAILABLE) from None

    async def _ping(self) -> None:
        await self._call_in_thread(self._store.ping)
        self._proved_at = monotonic()

    @property
    def call_age_s(self) -> float:
        """The age of the oldest call that the database has not answered, or 0."""
        return self._loop.time() - self._calls_began[0] if self._calls_began else 0.0

    @property
    def depth(self) -> int:
        return len(self._queue) + len(self._held)

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(0)  # parsed requests join this batch
            self._work.clear()
            self._clocks.serve()
            if self.ownership.is_due(self._clocks.read()):
                await self._turn_or_reload()
            self._running = self._drain()
            if self._running or self._intervals.are_over(self._clocks.read()):
                await self._commit(self._running)
            self._running = []
            self._release()
            if self._queue:
                self._work.set()
            elif self._closing and not self._held:
                return

    def _hold(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._held.append(job)
            self._notes_waiting += job.notes

    def _release(self) -> None:
        """Queue the held jobs before all others, once their streams take changes again."""
        if self._held and not self.streams.is_naming:
            self._queue[:0] = self._held
            self._held = []

    def _drain(self) -> list[Job]:
        notes = end = 0
        while end < len(self._queue) and notes < BATCH_NOTES:
            notes += self._queue[end].notes
            end += 1
        jobs = self._queue[:end]
        self._queue = self._queue[end:]
        self._notes_waiting -= notes
        return jobs

    async def _commit(self, jobs: list[Job]) -> None:
        draft = Draft(self._clocks.read())
        try:
            notes = 0
            for job in jobs:
                await _run_in_turn(job.run(self.streams, draft))
                notes += job.notes
                if notes >= SLICE_SIZE:
                    notes = 0
                    await asyncio.sleep(0)
            self._intervals.advance(draft, self.streams)
            if not draft.is_empty:
                await self._write(draft)
        except Exception as fault:  # noqa: BLE001 - memory is ahead of the store
            await self._give_up(jobs, fault, draft.moment.service)
            return
        self._hold(job for job in jobs if job.is_held)
        for job in jobs:
            if not job.is_held:
                job.resolve()
        await _run_in_turn(draft.batch.free())

    async def _write(self, draft: Draft) -> None:
        await _run_in_turn(draft.finish())
        batch = draft.batch
        if self._store.local:
            batch.put(*self.streams.clocks_at(draft.moment))
        started_at = perf_counter()
        with traces.commit(batch):
            await self._call_in_thread(self._store.commit, batch)
        self._failures = 0
        self._proved_at = monotonic()
        self._metrics.count_commit(batch, perf_counter() - started_at)
        await _run_in_turn(self.streams.publish(batch))
        for appended_mark in batch.list_puts(AppendedMark):
            self._notifier.notify_mark(
                appended_mark.stream_id, appended_mark.domain, appended_mark.mark
            )
        for (stream_id,) in batch.list_drops(StreamRecord):
            self._notifier.notify(stream_id)
        for record in batch.list_puts(StreamRecord):
            if record.seal:
                self._notifier.notify(record.id)
        log_changes(self.streams, batch)

    async def _give_up(self, jobs: list[Job], fault: Exception, served_ms: int) -> None:
        expected = isinstance(fault, NotedTimeError)
        self._metrics.failed_commits.inc()
        log.error("commit_failed", error=str(fault), exc_info=None if expected else fault)
        if not expected:
            fault = StoreUnavailable(f"the batch was given up: {type(fault).__name__}")
        _refuse(jobs, fault)
        await self._reload(fault, served_ms)

    async def _turn(self, known_clocks: Mapping[int, int] | None = None) -> None:
        loaded_streams = await self.ownership.turn(self.streams, known_clocks)
        self._clocks.pass_over()  # notes waited in between
        self._intervals.begin(loaded_streams)
        if loaded_streams:
            self._work.set()

    async def _turn_or_reload(self) -> None:
        try:
            await self._turn()
        except Exception as fault:  # noqa: BLE001 - nothing works without this task
            log.warning("turn_failed", error=str(fault))
            await self._reload(fault)

    async def _reload(self, fault: Exception, served_ms: int | None = None) -> None:
        """Reload the streams once the database answers; until then, callers get `fault`.

        Service clocks that no other process can have changed continue from `served_ms`.
        """
        self.ready = False
        self._refusal = _explain(fault)
        self._proved_at = -inf
        self.ownership.remember(self.streams)
        self._refuse_waiting(StoreUnavailable(self._refusal))
        if isinstance(fault, FINAL_FAULTS):
            raise fault
        known_clocks: dict[int, int] = {}
        if served_ms is not None and self._store.local:
            known_clocks = self.streams.clocks
            self._clocks.service.now = served_ms
        while not self._closing:
            self._failures += 1
            if self._failures > 1:
                await asyncio.sleep(RETRY_BACKOFF.delay_s(self._failures - 1, chance=0.0))
            self.streams = OwnedStreams()
            self._intervals.clear()
            try:
                await self._turn(known_clocks)
            except FINAL_FAULTS:
                raise  # so the task ends
            except Exception as error:  # noqa: BLE001 - nothing works without this task
                self._refusal = _explain(error)
                log.warning("store_unavailable", error=str(error), failures=self._failures)
            else:
                self.ready = True
                self._notifier.notify_all()  # the batch may have been written
                return

    def _handle_end(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._fail(fault)

    def _fail(self, fault: BaseException) -> None:
        self.ready = False
        self.failed = True
        self.ownership.give_up()
        if isinstance(fault, StoreLost):
            self._refusal = str(fault)
            log.critical("store_lost", error=str(fault))
        elif isinstance(fault, StoreShared):
            self.shared = fault
            self._refusal = str(fault)
            log.critical("session_shared", error=str(fault))
        else:
            self._refusal = CONTROLLER_FAILED
            log.critical("committer_failed", exc_info=fault)
        refusal = StoreUnavailable("the controller failed; try again")
        _refuse(self._running, refusal)
        self._refuse_waiting(refusal)

    def _refuse_waiting(self, reason: StoreUnavailable) -> None:
        waiting = self._held + self._queue
        self._held = []
        self._queue = []
        self._notes_waiting = 0
        _refuse(waiting, reason)

    def _check_room(self, notes: int) -> None:
        limits = self._limits
        if self.depth >= limits.waiting_requests:
            raise self._metrics.overload(f"{self.depth} requests wait already; try again")
        if notes and self.depth and self._notes_waiting + notes > limits.waiting_notes:
            raise self._metrics.overload(f"{self._notes_waiting} notes wait already; try again")

    async def _call_in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - any call
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        self._calls_began.append(began_at)
        timer = loop.call_later(COMMIT_TIMEOUT_S, self._refuse_overdue)
        try:
            return await loop.run_in_executor(self._thread, call, *arguments)
        finally:
            timer.cancel()
            self._calls_began.remove(began_at)

    def _refuse_overdue(self) -> None:
        """Fail all callers, because the database may never answer. Rows already written stay."""
        _refuse(self._running, StoreUnavailable(OVERDUE))
        self._refuse_waiting(StoreUnavailable(OVERDUE))


async def _run_in_turn(slices: Iterator[None]) -> None:
    for _ in slices:
        await asyncio.sleep(0)


def _explain(fault: Exception) -> str:
    if isinstance(fault, NotedTimeError):
        return str(fault)
    return f"the controller cannot load its streams: {type(fault).__name__}; it tries again"


def _refuse(jobs: Iterable[Job], reason: Exception) -> None:
    for job in jobs:
        job.outcome = reason
        job.resolve()
