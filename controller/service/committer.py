"""Group commit: everything that changes a stream goes through here, a batch at a time.

Theory of operation. Callers submit *work*: a function that changes the streams in memory and notes
in a draft what must be written. One task takes all work that is waiting, runs it in order, lets
time advance, and commits the draft in one transaction; meanwhile the next batch gathers. Where much
gathers it is run already, a portion at a time, into a draft of its own, so that a large batch costs
the longer of the two and not their sum. A caller is answered after its commit, so an answer means
durable, and there is no delay to tune: an idle controller commits at once, a busy one in larger
batches.

Marks are committed in the transaction of the notes they follow from. So every note that was
acknowledged before a mark is appended is either in that mark's transaction or in an earlier one,
and was fed to the aggregator before the mark was made.

Memory holds the streams of this controller's buckets, which only it may change; see `ownership`.

Memory is ahead of the database while a commit is under way. If the commit fails nothing of the
batch was written: all of its callers are told so, with those of the next, and memory is read anew.
The history that makes cuts tight is lost then, which loosens the next cut and never makes it
unsound. The service clock is set back to where the batch began: writers that were told to try again
could not have been heard.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from controller.aggregation.draft import Draft
from controller.aggregation.world import World
from controller.service.batches import Drafted, Job
from controller.service.calls import StoreCalls
from controller.service.intervals import Intervals
from controller.service.ownership import Ownership
from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError
from noted_time.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.aggregation.draft import Moment
    from controller.service.batches import Answering, Work
    from controller.service.bell import Bell
    from controller.service.clocks import Clocks
    from controller.service.limits import Limits
    from controller.service.metrics import Metrics
    from controller.store.port import Store

log = structlog.get_logger()

AHEAD = 256
"""So many notes that wait are run while the last batch is written; fewer wait for its end."""

PORTION = 1000
"""So many notes are run at a time: then others are heard, and the last batch may be written."""

PATIENCE = Backoff(first_s=0.1, cap_s=4.0)
"""How long the database is left alone after failures in a row; by half, without chance."""


class Committer:
    """The one task that changes streams."""

    def __init__(
        self, store: Store, clocks: Clocks, bell: Bell, metrics: Metrics, limits: Limits
    ) -> None:
        """Begin without streams; `start` loads them."""
        self._limits = limits
        self.world = World()
        self.ready = False
        self.failed = False
        self._calls = StoreCalls(store, self.wake)
        self.ownership = Ownership(store, clocks, bell, self._calls.in_thread)
        self._store = store
        self._clocks = clocks
        self._bell = bell
        self._metrics = metrics
        self._queue: list[Job] = []
        self._notes_waiting = 0
        self._next: Drafted | None = None
        self._writing: Drafted | None = None
        self._settled: list[Job] = []
        self._work = asyncio.Event()
        self._intervals = Intervals(self.wake)
        self._closing = False
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take a first turn and begin to commit; raises `StoreUnavailable`."""
        await self._turn()
        self.ready = True
        self._task = asyncio.create_task(self._run(), name="committer")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Commit what is waiting, then stop."""
        self._closing = True
        self._work.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        self.ready = False
        self._calls.close()

    def submit(self, work: Work, *, last: bool = False) -> asyncio.Future[Any]:
        """Queue work; returns a future of its outcome, durable when it is there.

        Raises as `queue` does.
        """
        answer = asyncio.get_running_loop().create_future()
        self.queue(work, answer, last=last)
        return answer

    def queue(self, work: Work, answer: Answering, *, last: bool = False, notes: int = 0) -> None:
        """Queue work, whose outcome `answer` is told when it is durable.

        Raises `StoreUnavailable`, and `Overloaded` where as much waits as is taken on.
        """
        self.check()
        self._check_room(notes)
        self._queue.append(Job(work, answer, last, notes))
        self._notes_waiting += notes
        if self._writing is None or self._notes_waiting >= AHEAD:
            self._work.set()

    def check(self) -> None:
        """Raise `StoreUnavailable` where no work can be taken."""
        if not self.ready:
            message = "the database does not answer; try again"
            raise StoreUnavailable(message)

    def wake(self) -> None:
        """Look whether there is anything to do, a turn to take say, and let time be served."""
        self._work.set()

    def _check_room(self, notes: int) -> None:
        limits = self._limits
        if len(self._queue) >= limits.waiting_requests:
            raise self._metrics.overload(f"{len(self._queue)} requests wait already; try again")
        if notes and self._queue and self._notes_waiting + notes > limits.waiting_notes:
            raise self._metrics.overload(f"{self._notes_waiting} notes wait already; try again")

    async def ping(self) -> None:
        """Raise `StoreUnavailable` where the database does not answer."""
        await self._calls.in_thread(self._store.ping)

    @property
    def depth(self) -> int:
        """How many jobs wait for the next commit."""
        return len(self._queue)

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            if self._writing is None or self._notes_waiting >= AHEAD:
                await asyncio.sleep(0)  # let every request that is parsed already join this batch
            self._work.clear()
            if self._writing is not None and self._writing.is_done:
                await self._settle(self._writing)
            if self._writing is None:
                self._clocks.serve()
            now = self._clocks.read()
            if self._writing is None and self._next is None and self.ownership.is_due(now):
                self._answer_settled()
                await self._turn_or_reload()
                now = self._clocks.read()
            self._fill(now)
            if self._writing is None and (self._next is not None or self._intervals.are_over(now)):
                await self._begin_to_write(now)
            self._answer_settled()
            if self._closing and self._writing is None and not self._queue:
                return

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Take no more work where the task failed, which would be a fault of ours.

        What it was about is not known, so the process is to be started again; it is not `ready`,
        and no more heard of by the database, so others take what it has.
        """
        fault = None if task.cancelled() else task.exception()
        if fault is None:
            return
        self.ready, self.failed = False, True
        log.critical("committer_failed", exc_info=fault)
        drafted = [each.jobs for each in (self._writing, self._next) if each is not None]
        for jobs in (*drafted, self._queue):
            _answer(jobs, StoreUnavailable("the controller failed; try again"))
        self._answer_settled()

    def _fill(self, now: Moment) -> None:
        """Run what waits, into the batch that is written next.

        While one is written that is worth while for many notes only, and not ahead of a turn.
        """
        queue = self._queue
        if not queue or (self._next is not None and self._next.is_closed):
            return
        runs_ahead = self._notes_waiting >= AHEAD and not self.ownership.is_due(now)
        if self._writing is not None and not runs_ahead:
            return
        end = _portion(queue)
        self._queue = queue[end:]
        self._notes_waiting = sum(job.notes for job in self._queue)
        self._open(now).run(queue[:end], self.world, now)
        if self._queue:
            self._work.set()

    def _open(self, now: Moment) -> Drafted:
        """Return the batch that is written next."""
        if self._next is None:
            self._next = Drafted(Draft.at(now))
        return self._next

    async def _begin_to_write(self, now: Moment) -> None:
        """Let time advance and begin to write what is drafted, if it is anything."""
        drafted, self._next = self._open(now), None
        draft = drafted.draft
        draft.moment = now
        if self._store.local:
            draft.batch.clocks = self.world.clocks_at(draft.moment)
        if drafted.fault is None:
            try:
                self._intervals.advance(draft, self.world)
            except Exception as fault:  # noqa: BLE001 - memory is ahead of it, whatever it is
                drafted.fault = fault
        if drafted.fault is not None or draft.is_empty:
            await self._settle(drafted)
            return
        self._writing = drafted
        self._calls.write(drafted, draft.finished())
        if drafted.is_done:
            await self._settle(drafted)

    async def _settle(self, drafted: Drafted) -> None:
        """Take in that a batch was written, or had nothing to write, or failed.

        Its callers are answered once the next one is on its way.
        """
        self._writing = None
        if self._queue or self._next is not None:
            self._work.set()
        if drafted.is_done and drafted.fault is None:
            self._publish(drafted)
        if drafted.fault is not None:
            await self._give_up(drafted, drafted.fault)
        self._settled += drafted.jobs

    def _answer_settled(self) -> None:
        settled, self._settled = self._settled, []
        for job in settled:
            job.resolve()

    async def _give_up(self, drafted: Drafted, fault: Exception) -> None:
        """Tell everybody whose work is in memory alone that nothing of it was written."""
        self._answer_settled()
        expected = isinstance(fault, StoreUnavailable | NotedTimeError)
        self._metrics.failed_commits.inc()
        log.error("commit_failed", error=str(fault), exc_info=None if expected else fault)
        lost, self._next = [drafted, self._next], None
        for each in lost:
            _answer(each.jobs if each else [], _told(fault))
        await self._reload(drafted.began_ms)

    def _publish(self, drafted: Drafted) -> None:
        batch = drafted.draft.batch
        self._failures = 0
        self._metrics.committed(batch, drafted.took_s)
        try:
            self.world.publish(batch)
        except Exception as fault:  # noqa: BLE001 - memory is not what was written, whatever it is
            drafted.fault = fault
            return
        for stream_id in {appended.stream_id for appended in batch.marks} | set(batch.dropped):
            self._bell.ring(stream_id)

    async def _turn(self, known: Mapping[int, int] | None = None) -> None:
        taken = await self.ownership.turn(self.world, known)
        self._clocks.pass_over()  # whoever noted meanwhile waits
        self._intervals.begin(taken)
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
            self.world = World()
            self._intervals.clear()
            try:
                await self._turn(known)
            except Exception as away:  # noqa: BLE001 - without this task nothing would go on
                log.warning("store_unavailable", error=str(away), failures=self._failures)
            else:
                self.ready = True
                self._bell.ring_all()  # whether the failed batch was written is not known
                return


def _portion(queue: list[Job]) -> int:
    """Return how many of the jobs to run next."""
    notes = 0
    for number, job in enumerate(queue, start=1):
        notes += job.notes
        if job.last or notes >= PORTION:
            return number
    return len(queue)


def _answer(jobs: list[Job], outcome: Exception) -> None:
    for job in jobs:
        job.outcome = outcome
        job.resolve()


def _told(fault: Exception) -> Exception:
    """Return what a caller is told of a fault: whatever it was, nothing was written."""
    if isinstance(fault, StoreUnavailable | NotedTimeError):
        return fault
    return StoreUnavailable(f"the batch was given up: {type(fault).__name__}")
