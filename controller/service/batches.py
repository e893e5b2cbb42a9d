"""What one group commit takes in: the jobs that wait for it, and the draft they wrote to."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry.trace import INVALID_SPAN

from controller.aggregation.world import NotHere
from controller.service import traces
from noted_time import NotedTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span

    from controller.aggregation.draft import Draft, Moment
    from controller.aggregation.world import World
    from controller.store.port import Batch

    Work = Callable[[World, Draft], Any]


class Answering(Protocol):
    """Who is told of an outcome, once: a future, or the request itself. It must not raise."""

    def cancelled(self) -> bool:
        """Whether it went away, and nothing is to be done for it any more."""

    def done(self) -> bool:
        """Whether it was told already, or went away."""

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - as many kinds as of work
        """Be told what came of it."""

    def set_exception(self, failure: Exception, /) -> None:
        """Be told why nothing did."""


@dataclass(slots=True)
class Job:
    """Work that waits for its commit; `last` work ends its batch (a stream may be made again).

    `notes` is how many notes it brings.
    """

    work: Work
    answer: Answering
    last: bool = False
    notes: int = 0
    outcome: Any = None

    def run(self, world: World, draft: Draft) -> None:
        """Do the work, unless its caller went away meanwhile.

        A refusal is its outcome, anything else is a fault of the batch.
        """
        # once: so a thousand notes, say, are freed while they are in the cache
        work, self.work = self.work, _done
        if self.answer.cancelled():
            return
        try:
            self.outcome = work(world, draft)
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


def _done(_world: World, _draft: Draft) -> None:
    """Stand for work that was done."""


@dataclass(slots=True)
class Drafted:
    """A batch: its jobs were run, in memory; then it is written, or has a `fault`."""

    draft: Draft
    jobs: list[Job] = field(default_factory=list)
    fault: Exception | None = None
    is_done: bool = False
    took_s: float = 0.0
    began_ms: int = 0
    _begun: float = 0.0
    _span: Span = INVALID_SPAN

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

    def start(self, batch: Batch) -> None:
        """Say that it is written from now on."""
        self._span = traces.commit(batch)
        self._begun = perf_counter()

    def attempt(self, call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - passes on what it is given
        """Make a call for it; what that raises is its fault, told to all whose work it was."""
        try:
            return call(*arguments)
        except Exception as fault:  # noqa: BLE001 - whatever it is
            self.fault = fault
            return None

    def end(self) -> None:
        """Say that it is written, or failed to be."""
        self.took_s = perf_counter() - self._begun
        traces.end(self._span, self.fault)
        self.is_done = True
