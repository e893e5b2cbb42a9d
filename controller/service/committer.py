"""Group commit: everything that changes a stream goes through here, a batch at a time.

Theory of operation. Callers submit *work*: a function that changes the streams in memory and notes
in a draft what must be written. One task takes all work that is waiting, runs it in order, lets
time advance, and commits the draft in one transaction; meanwhile the next batch gathers. A caller
is answered after its commit, so an answer means durable, and there is no delay to tune: an idle
controller commits at once, a busy one in larger batches.

Marks are committed in the transaction of the notes they follow from. So every note that was
acknowledged before a mark is appended is either in that mark's transaction or in an earlier one,
and was fed to the aggregator before the mark was made.

Memory holds the streams of this controller's buckets, which only it may change; see `ownership`.

Memory is ahead of the database while a commit is under way. If the commit fails nothing of the
batch was written: all of its callers are told so, and memory is read anew. The history that makes
cuts tight is lost then, which loosens the next cut and never makes it unsound. The service clock is
set back to where the batch began: writers that were told to try again could not have been heard.

A commit runs on a thread of its own, so that a slow disk or a locked file holds nobody else up. Yet
under load the loop and that thread take the interpreter's lock from each other at every row: where
the last commit was quick, a batch of many small requests is committed in the loop itself, which
saves an eighth of the CPU time of a note. A commit that turns out slow holds the loop up once.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import structlog

from controller.aggregation.draft import Draft
from controller.aggregation.world import NotHere, World
from controller.service.limits import Overloaded
from controller.service.ownership import Ownership
from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError
from noted_time.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.aggregation.stream import StreamState
    from controller.service.bell import Bell
    from controller.service.clocks import Clocks
    from controller.service.limits import Limits
    from controller.service.metrics import Metrics
    from controller.store.port import Batch, Store

log = structlog.get_logger()

QUICK_S = 0.010
"""A commit within this time lets the next one be made in the loop."""

QUICK_ROWS = range(16, 257)
"""The sizes of a batch that may be: below there is no load, above no hurry."""

PATIENCE = Backoff(first_s=0.1, cap_s=4.0)
"""How long the database is left alone after failures in a row; by half, without chance."""


@dataclass(slots=True)
class Job:
    """Work that waits for its commit; `last` work ends its batch (a stream may be made again).

    `notes` is how many notes it brings.
    """

    work: Callable[[World, Draft], Any]
    answer: asyncio.Future[Any]
    last: bool = False
    notes: int = 0
    outcome: Any = None

    def run(self, world: World, draft: Draft) -> None:
        """Do the work; a refusal is its outcome, anything else is a fault of the batch."""
        try:
            self.outcome = self.work(world, draft)
        except (NotedTimeError, NotHere) as refusal:
            self.outcome = refusal

    def resolve(self) -> None:
        """Answer the caller, if it still waits."""
        if self.answer.done():
            return
        if isinstance(self.outcome, Exception):
            self.answer.set_exception(self.outcome)
        else:
            self.answer.set_result(self.outcome)


class Committer:
    """The one task that changes streams."""

    def __init__(
        self, store: Store, clocks: Clocks, bell: Bell, metrics: Metrics, limits: Limits
    ) -> None:
        """Begin without streams; `start` loads them."""
        self._limits = limits
        self.world = World()
        self.ready = False
        self.ownership = Ownership(store, clocks, bell, self._in_thread)
        self._store = store
        self._clocks = clocks
        self._bell = bell
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._in_use = 0
        self._last_commit_s = QUICK_S
        self._queue: list[Job] = []
        self._notes_waiting = 0
        self._work = asyncio.Event()
        self._waiting: dict[str, StreamState] = {}
        self._closing = False
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take a first turn and begin to commit; raises `StoreUnavailable`."""
        await self._turn()
        self.ready = True
        self._task = asyncio.create_task(self._run(), name="committer")

    async def close(self) -> None:
        """Commit what is waiting, then stop."""
        self._closing = True
        self._work.set()
        if self._task is not None:
            await self._task
        self.ready = False
        self._thread.shutdown()

    def submit(
        self, work: Callable[[World, Draft], Any], *, last: bool = False, notes: int = 0
    ) -> Any:  # noqa: ANN401 - as many kinds of answer as of work
        """Queue work; returns a future of its outcome, durable when it is there.

        Raises `Overloaded` where as much waits as is taken on.
        """
        self.check()
        self._check_room(notes)
        answer = asyncio.get_running_loop().create_future()
        self._queue.append(Job(work, answer, last, notes))
        self._notes_waiting += notes
        self._work.set()
        return answer

    def check(self) -> None:
        """Raise `StoreUnavailable` where no work can be taken."""
        if not self.ready:
            message = "the database does not answer; try again"
            raise StoreUnavailable(message)

    def wake(self) -> None:
        """Look whether it is time for a turn, also where there is no work."""
        if self.ownership.is_due():
            self._work.set()

    def _check_room(self, notes: int) -> None:
        limits = self._limits
        if len(self._queue) >= limits.waiting_requests:
            raise Overloaded(f"{len(self._queue)} requests wait already; try again")
        if notes and self._queue and self._notes_waiting + notes > limits.waiting_notes:
            raise Overloaded(f"{self._notes_waiting} notes wait already; try again")

    async def ping(self) -> None:
        """Raise `StoreUnavailable` where the database does not answer."""
        await self._in_thread(self._store.ping)

    @property
    def depth(self) -> int:
        """How many jobs wait for the next commit."""
        return len(self._queue)

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(0)  # let every request that is parsed already join this batch
            self._work.clear()
            if self.ownership.is_due():
                await self._turn_or_reload()
            jobs = self._take()
            await self._commit(jobs)
            if self._queue:
                self._work.set()
            elif self._closing:
                return

    def _take(self) -> list[Job]:
        queue = self._queue
        end = next((i + 1 for i, job in enumerate(queue) if job.last), len(queue))
        self._queue = queue[end:]
        self._notes_waiting = sum(job.notes for job in self._queue)
        return queue[:end]

    async def _commit(self, jobs: list[Job]) -> None:
        draft = Draft.at(self._clocks.read())
        if self._store.local:
            draft.batch.clocks = self.world.clocks_at(draft.moment)
        try:
            for job in jobs:
                job.run(self.world, draft)
            self._advance(draft)
            if not draft.is_empty:
                await self._write(draft.finished())
        except Exception as fault:
            expected = isinstance(fault, StoreUnavailable | NotedTimeError)
            log.exception("commit_failed", error=str(fault), exc_info=not expected)
            _answer(jobs, _told(fault))
            await self._reload(draft.moment.service)
        for job in jobs:
            job.resolve()

    def _advance(self, draft: Draft) -> None:
        streams = {stream.id: stream for stream in draft.streams()} | self._waiting
        self._waiting = {}
        waits = []
        for stream in streams.values():
            if self.world.find(stream.record.name) is not stream:
                continue
            wait = stream.advance_due(draft)
            if wait is not None:
                self._waiting[stream.id] = stream
                waits.append(wait)
        if waits:
            asyncio.get_running_loop().call_later(min(waits) / 1000, self._work.set)

    async def _write(self, batch: Batch) -> None:
        with self._metrics.commit(batch):
            if self._is_quick(batch):
                self._timed_commit(batch)
            else:
                await self._in_thread(self._timed_commit, batch)
        self._failures = 0
        self.world.publish(batch)
        for stream_id in {appended.stream_id for appended in batch.marks} | set(batch.dropped):
            self._bell.ring(stream_id)

    def _is_quick(self, batch: Batch) -> bool:
        """Whether the loop may wait for this commit; the store has one caller at a time."""
        return (
            self._store.local
            and len(batch.members) in QUICK_ROWS
            and self._last_commit_s < QUICK_S
            and not self._in_use
        )

    def _timed_commit(self, batch: Batch) -> None:
        begun = perf_counter()
        try:
            self._store.commit(batch)
        finally:
            self._last_commit_s = perf_counter() - begun

    async def _turn(self, known: Mapping[int, int] | None = None) -> None:
        taken = await self.ownership.turn(self.world, known)
        self._waiting |= {stream.id: stream for stream in taken}
        if taken:
            self._work.set()

    async def _turn_or_reload(self) -> None:
        try:
            await self._turn()
        except Exception as fault:  # noqa: BLE001 - without this task nothing would go on
            log.warning("turn_failed", error=str(fault))
            await self._reload()

    async def _reload(self, service_ms: int | None = None) -> None:
        """Read the streams anew, however long the database stays away.

        One that can be read but not written is left alone for longer after each failure, with every
        request refused at once. The service clocks are read too, unless nobody else can have moved
        them: then they go on from `service_ms`.
        """
        self.ready = False
        queue, self._queue, self._notes_waiting = self._queue, [], 0
        _answer(queue, StoreUnavailable("the database does not answer; try again"))
        known: dict[int, int] = {}
        if service_ms is not None and self._store.local:
            known, self._clocks.service.now = self.world.clocks, service_ms
        while not self._closing:
            self._failures += 1
            if self._failures > 1:
                await asyncio.sleep(PATIENCE.delay_s(self._failures - 1, chance=0.0))
            self.world, self._waiting = World(), {}
            try:
                await self._turn(known)
            except Exception as away:  # noqa: BLE001 - without this task nothing would go on
                log.warning("store_unavailable", error=str(away), failures=self._failures)
            else:
                self.ready = True
                self._bell.ring_all()  # whether the failed batch was written is not known
                return

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - passes on what it is given
        self._in_use += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        finally:
            self._in_use -= 1


def _answer(jobs: list[Job], outcome: Exception) -> None:
    for job in jobs:
        job.outcome = outcome
        job.resolve()


def _told(fault: Exception) -> Exception:
    """Return what a caller is told of a fault: whatever it was, nothing was written."""
    if isinstance(fault, StoreUnavailable | NotedTimeError):
        return fault
    return StoreUnavailable(f"the batch was given up: {type(fault).__name__}")
