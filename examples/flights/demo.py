"""The demo's work from the flights to the findings: replay, query, measure, and clean up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.flights.data import HOUR_MS
from examples.flights.measurement import noted_outcome, own_outcome, untimely
from examples.flights.query import (
    hourly,
    run_to_the_end,
    truth,
    with_noted_time,
    with_own_watermark,
    write_archive,
)
from examples.flights.replay import STREAM, replay
from examples.flights.schedule import closing_clocks, hourly_batches
from examples.flights.simulation import least_delay_without_loss, noted_time, own_watermark
from examples.flights.surroundings import controller, spark_session
from reader_client import ReaderClient
from spark_integration import Batches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
    from pathlib import Path

    from pyspark.sql import SparkSession

    from examples.flights.data import Flights
    from examples.flights.measurement import Cuts, Outcome, Truth
    from examples.flights.query import Run
    from examples.flights.replay import Replayed
    from examples.flights.surroundings import Bars

MOST_BATCHES = 1000
DATABASE = "noted-time.db"


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the demo.

    Delays are in full hours, the pace in hours per second, 0 for none. Without `run_own`, Spark
    runs the query under noted time alone.
    """

    delay_hours: tuple[int, ...]
    rows_per_batch: int = 200
    hours_per_second: float = 0
    run_own: bool = True


@dataclass(frozen=True, slots=True)
class Findings:
    """What Spark measured and what the simulation predicted, noted time first in both.

    `measured` ends after noted time if Spark's own watermark was not run. `untimely` counts the
    windows that noted time emitted later than its marks allowed.
    """

    measured: tuple[Outcome, ...]
    predicted: tuple[Outcome, ...]
    untimely: int

    @property
    def agree(self) -> bool:
        """Whether every row lost and every latency is as predicted."""
        return self.measured == self.predicted[: len(self.measured)]

    @property
    def shown(self) -> tuple[Outcome, ...]:
        """What was measured, and for the rest the simulation's prediction."""
        return (*self.measured, *self.predicted[len(self.measured) :])

    @property
    def own_was_run(self) -> bool:
        """Whether Spark's own watermark was measured, too."""
        return len(self.measured) > 1


def least_full_hours(flights: Flights) -> int:
    """Return the least delay in full hours at which Spark's own watermark loses nothing."""
    return -(-least_delay_without_loss(flights) // HOUR_MS)


def predict(flights: Flights, plan: Plan) -> tuple[Outcome, ...]:
    """Return the simulation's prediction for noted time and for each delay."""
    own = (own_watermark(flights, hours * HOUR_MS) for hours in plan.delay_hours)
    return (noted_time(flights), *own)


def find(flights: Flights, plan: Plan, directory: Path, bars: Bars) -> Findings:
    """Run the demo in `directory`; everything that was started has ended on return, in any case.

    The controller's SQLite file is `DATABASE` there.
    """
    work = Work(flights, plan, directory, bars)
    with (
        controller(directory / DATABASE, directory) as url,
        ThreadPoolExecutor(2) as beside,
        spark_session(directory) as spark,
    ):
        # In another thread, as this one may be interrupted, which Spark's client cannot handle.
        own = beside.submit(work.count_under_own_watermark, spark) if plan.run_own else None
        replayed = work.replay(url)
        noted = beside.submit(work.count_under_noted_time, spark, url)
        return work.findings(spark, url, replayed, noted=noted.result(), own=own)


@dataclass(frozen=True, slots=True)
class Work:
    """The parts of the demo, each with a bar of its own."""

    flights: Flights
    plan: Plan
    directory: Path
    bars: Bars

    @property
    def log(self) -> Path:
        """The root of the file log."""
        return self.directory / "log"

    def replay(self, url: str) -> Replayed:
        """Let the carriers write and note."""
        stops = len(closing_clocks(self.flights))
        done = self.bars.bar("The carriers write as flights land, and note", stops)
        pace = self.plan.hours_per_second
        return replay(self.flights, self.log, url, hours_per_second=pace, on_step=done)

    def count_under_own_watermark(self, spark: SparkSession) -> Run:
        """Run the query under Spark's own watermark, at all delays."""
        batches = list(hourly_batches(self.flights))
        done = self.bars.bar("Spark counts under its own watermark", len(batches) + 1)
        archive = self.directory / "archive"
        write_archive(archive, batches)
        flights = with_own_watermark(spark, archive, self.plan.delay_hours)
        return run_to_the_end(hourly(flights), self.directory / "own", done)

    def count_under_noted_time(self, spark: SparkSession, url: str) -> Run:
        """Run the query under noted time."""
        rows = len(self.flights.landed)
        max_rows = max(self.plan.rows_per_batch, rows // MOST_BATCHES)
        done = self.bars.bar("Spark counts under noted time", -(-rows // max_rows) + 1)
        flights = with_noted_time(spark, self.log, url, Batches(max_rows))
        return run_to_the_end(hourly(flights), self.directory / "noted", done)

    def findings(
        self,
        spark: SparkSession,
        url: str,
        replayed: Replayed,
        *,
        noted: Run,
        own: Future[Run] | None,
    ) -> Findings:
        """Compare the queries' results with a batch count of the same rows."""
        counted, cuts = truth(spark, self.log), cuts_of(url, self.flights.window_ends)
        own_outcomes = self._own_outcomes(own.result(), counted) if own else ()
        return Findings(
            measured=(noted_outcome(noted, counted, cuts, replayed), *own_outcomes),
            predicted=predict(self.flights, self.plan),
            untimely=untimely(noted, cuts),
        )

    def _own_outcomes(self, own: Run, counted: Truth) -> tuple[Outcome, ...]:
        landed, delays = self.flights.landed, self.plan.delay_hours
        return tuple(own_outcome(own, hours, counted, landed) for hours in delays)


def cuts_of(url: str, window_ends: Iterable[int]) -> Cuts:
    """Return for each hourly window the cut that closes it, from the controller's marks."""
    with ReaderClient(url, STREAM) as reader:
        reader.catch_up()
        return {end: dict(reader.cut_at(end).cut.offsets) for end in window_ends}
