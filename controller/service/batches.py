"""What one group commit takes in: the jobs that wait for it, and the draft they wrote to."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from controller.aggregation.world import NotHere
from controller.service import traces
from noted_time import NotedTimeError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from controller.aggregation.draft import Draft, Moment
    from controller.aggregation.world import World
    from controller.store.port import Batch, Store


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
        """Do the work, unless its caller went away meanwhile.

        A refusal is its outcome, anything else is a fault of the batch.
        """
        if self.answer.cancelled():
            return
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


@dataclass(slots=True)
class Drafted:
    """A batch: its jobs were run, in memory; then it is written, or has a `fault`."""

    draft: Draft
    jobs: list[Job] = field(default_factory=list)
    fault: Exception | None = None
    is_done: bool = False
    took_s: float = 0.0
    began_ms: int = 0

    def __post_init__(self) -> None:
        """Remember the service clock at which it began."""
        self.began_ms = self.draft.moment.service

    @property
    def is_closed(self) -> bool:
        """Whether no more work may join it."""
        return self.fault is not None or (bool(self.jobs) and self.jobs[-1].last)

    def run(self, jobs: list[Job], world: World, moment: Moment) -> None:
        """Run more work; after a fault the rest of it is not run."""
        self.draft.moment = moment
        self.jobs += jobs
        try:
            for job in jobs:
                job.run(world, self.draft)
        except Exception as fault:  # noqa: BLE001 - memory is ahead of it, whatever it is
            self.fault = fault

    def write(self, store: Store, batch: Batch) -> None:
        """Commit it, on whichever thread."""
        begun = perf_counter()
        try:
            with traces.commit(batch):
                store.commit(batch)
        except Exception as fault:  # noqa: BLE001 - told to all whose work it was
            self.fault = fault
        self.took_s = perf_counter() - begun
        self.is_done = True
