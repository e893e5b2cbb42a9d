"""Noted time against guessed delays: the carriers write, Spark counts, and both are measured."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from demo import kafka, picture, report, ways
from demo.data import HOUR_MS
from demo.measurement import Counted, came_in, noted_outcome, own_outcome, untimely
from demo.query import (
    LOOK_S,
    archived,
    hourly,
    run_to_the_end,
    run_until,
    truth,
    with_noted_time,
    with_own_watermark,
    write_archive,
)
from demo.replay import DOMAIN, STREAM, at_work, replay
from demo.schedule import ALL_EXACT, hourly_batches, steps
from demo.simulation import analysed, least_delay_without_loss, noted_time, own_watermark
from demo.stage import Result
from reader_client import ReaderClient
from spark_integration import Batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demo.data import Flights
    from demo.measurement import Cuts, Outcome
    from demo.query import Run
    from demo.replay import Replayed, Take
    from demo.schedule import Delays, Step
    from demo.stage import Stage

MOST_BATCHES = 1000
TRIGGER = "1 second"
CURVE_STEP_MS = HOUR_MS // 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the comparison.

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
    windows that noted time emitted later than its marks allowed, `None` if it ran live: what a mark
    allows then depends on when it came. `incidents` are sentences on what happened meanwhile, and
    `ways` is a line on how each carrier was noted, empty if all were alike.
    """

    measured: tuple[Outcome, ...]
    predicted: tuple[Outcome, ...]
    untimely: int | None
    incidents: tuple[str, ...] = ()
    ways: str = ""

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


def play(stage: Stage, plan: Plan) -> Result:
    """Play noted time against guessed delays."""
    findings = find(stage, plan)
    delays = range(HOUR_MS, max(plan.delay_hours) * HOUR_MS + 1, CURVE_STEP_MS)
    curve = [own_watermark(stage.flights, delay_ms) for delay_ms in delays]
    perfect = analysed(stage.flights).perfect.median_ms
    lost = findings.measured[0].lost
    return Result(
        table=report.table(findings),
        meaning=report.closing(findings, least_delay_without_loss(stage.flights)),
        figures=report.figures(findings),
        picture=picture.draw(findings, curve, perfect),
        broken=(f"Noted time lost {lost:,} rows.",) if lost else (),
    )


def find(stage: Stage, plan: Plan) -> Findings:
    """Replay the flights and run the queries; returns what they measured and the prediction."""
    own = stage.beside.submit(_count_under_own_watermark, stage, plan) if plan.run_own else None
    counted = (_count_from_kafka if stage.bootstrap else _count_from_files)(stage, plan)
    cuts = cuts_of(stage.url, stage.flights.window_ends)
    measured = [noted_outcome(counted, cuts)]
    if own:
        run, landed = own.result(), stage.flights.landed
        measured += [own_outcome(run, hours, counted.truth, landed) for hours in plan.delay_hours]
    own_delays = [hours * HOUR_MS for hours in plan.delay_hours]
    predicted = [own_watermark(stage.flights, delay_ms) for delay_ms in own_delays]
    return Findings(
        measured=tuple(measured),
        predicted=(noted_time(stage.flights, delays_of(stage)), *predicted),
        untimely=None if stage.bootstrap else untimely(counted.run, cuts),
        incidents=counted.incidents,
        ways=ways.in_brief(stage.flights) if stage.bootstrap else "",
    )


def _count_from_files(stage: Stage, plan: Plan) -> Counted:
    """Let the carriers write the file log, and run the query under noted time over it."""
    with at_work(stage.flights.carriers, stage.log, stage.url) as carriers:
        replayed = _replayed(stage, plan, carriers.take, list(steps(stage.flights)))
    run = stage.beside.submit(_count_under_noted_time, stage, plan).result()
    return Counted(run, truth(stage.written()), replayed)


def _count_from_kafka(stage: Stage, plan: Plan) -> Counted:
    """Let the carriers produce to Kafka while the query under noted time runs live."""
    stops, runs = list(steps(stage.flights, None, delays_of(stage))), Event()
    with kafka.at_work(stage, len(stops)) as carriers:
        live = stage.beside.submit(_count_live, stage, runs, until=stops[-1].clock)
        try:
            while not (runs.wait(LOOK_S) or live.done()):
                continue
            replayed = _replayed(stage, plan, carriers.take, stops)
        except BaseException:
            for query in stage.spark.streams.active:
                query.stop()  # it would wait for ever for a carrier that has ended
            raise
        replayed.lowers = carriers.lowers
    run, written = live.result(), kafka.written(stage)
    incidents = (*carriers.incidents, report.price(noted_time(stage.flights)))
    return Counted(run, truth(written), replayed, incidents)


def _replayed(stage: Stage, plan: Plan, take: Take, stops: Sequence[Step]) -> Replayed:
    """Let the carriers write, and be noted."""
    done = stage.bar("The carriers write as flights land, and note", len(stops))
    return replay(stops, take, hours_per_second=plan.hours_per_second, on_step=done)


def _count_live(stage: Stage, runs: Event, until: int) -> Run:
    """Run the query under noted time until the watermark is at `until`, in Unix ms.

    Its first micro-batch sets `runs`.
    """

    def on_batch(run: Run) -> None:
        runs.set()
        done(len(came_in(run, 0)))

    done = stage.bar("Spark counts live, and gives hours out", len(stage.flights.window_ends))
    checkpoint = stage.directory / "noted"
    counts = hourly(kafka.with_noted_time(stage, checkpoint))
    return run_until(until, counts, checkpoint, on_batch, processingTime=TRIGGER)


def _count_under_own_watermark(stage: Stage, plan: Plan) -> Run:
    """Run the query under Spark's own watermark, at all delays."""
    batches = list(hourly_batches(stage.flights))
    done = stage.bar("Spark counts under its own watermark", len(batches) + 1)
    archive = stage.directory / "archive"
    write_archive(archive, batches)
    flights = with_own_watermark(archived(stage.spark, archive), plan.delay_hours)
    own = stage.directory / "own"
    return run_to_the_end(hourly(flights), own, lambda run: done(len(run.given_out)))


def _count_under_noted_time(stage: Stage, plan: Plan) -> Run:
    """Run the query under noted time."""
    rows = len(stage.flights.landed)
    max_rows = max(plan.rows_per_batch, rows // MOST_BATCHES)
    done = stage.bar("Spark counts under noted time", -(-rows // max_rows) + 1)
    flights = with_noted_time(stage.spark, stage.log, stage.url, Batches(max_rows))
    noted = stage.directory / "noted"
    return run_to_the_end(hourly(flights), noted, lambda run: done(len(run.given_out)))


def delays_of(stage: Stage) -> Delays:
    """Return the delays of carriers that are not noted exactly: there are some on Kafka alone."""
    return ways.delays(stage.flights) if stage.bootstrap else ALL_EXACT


def cuts_of(url: str, window_ends: Iterable[int], domain: str = DOMAIN) -> Cuts:
    """Return for each hourly window the cut that closes it, from the controller's marks."""
    with ReaderClient(url, STREAM) as reader:
        reader.catch_up()
        return {end: dict(reader.cut_at(end, domain).cut.offsets) for end in window_ends}
