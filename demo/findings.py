"""Measures noted time against guessed delays: carriers write, Spark counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from demo import kafka, picture, report
from demo.data import HOUR_MS, MINUTE_MS, Flights
from demo.measurement import (
    Cuts,
    Findings,
    Run,
    compute_noted_outcome,
    compute_own_outcome,
    find_batches,
)
from demo.progress import describe_parts, divide_by_batches, divide_by_steps
from demo.query import (
    add_own_watermarks,
    hourly,
    read_archive,
    read_noted,
    run_to_the_end,
    run_until,
    truth,
    write_archive,
)
from demo.replay import DOMAIN, STREAM, Replayed, replay, start_carriers
from demo.schedule import Step, merge_minutes, steps
from demo.simulation import (
    least_delay_without_loss,
    own_watermark,
    simulate_noted_time,
    simulate_perfect_watermark,
)
from demo.stage import Result, Stage
from noted_time_extensions.files import Batches
from reader_client import ReaderClient
from tools.trials.kafka import Broker
from tools.trials.s3 import read_parquet

DELAY_HOURS = (2, 4, 6, 8)
"""The delays of Spark's own watermark that are tried; the least that loses nothing is simulated."""

LEAST_ROWS = 200
MOST_BATCHES = 1000
"""The rows of a micro-batch under noted time, more if there would be too many batches."""


def choose_delays(flights: Flights) -> tuple[int, ...]:
    """Return the tried delays in ms, and then the least that loses nothing, in full minutes."""
    least_delay_ms = -(-least_delay_without_loss(flights) // MINUTE_MS) * MINUTE_MS
    return *(hours * HOUR_MS for hours in DELAY_HOURS), least_delay_ms


def play(stage: Stage, *, run_own: bool) -> Result:
    findings = find(stage, run_own=run_own)
    rising = range(HOUR_MS, max(choose_delays(stage.flights)) + 1, HOUR_MS // 10)
    report_step = stage.bar("The simulation computes the picture", len(rising))
    curve = []
    for delay_ms in rising:
        curve.append(own_watermark(stage.flights, delay_ms))
        report_step(len(curve))
    lost_count = findings.measured[0].lost
    perfect_outcome = simulate_perfect_watermark(stage.flights)
    return Result(
        table=report.table(findings),
        meaning=report.closing(findings),
        figures=report.figures(findings),
        pictures={
            "": picture.draw(findings, curve, perfect_outcome),
            "-dark": picture.draw(findings, curve, perfect_outcome, picture.DARK_PALETTE),
        },
        broken=(f"Noted time lost {lost_count:,} rows.",) if lost_count else (),
    )


def find(stage: Stage, *, run_own: bool) -> Findings:
    """Replay the flights and run the queries; return measurements and predictions."""
    own_run = stage.beside.submit(_count_under_own_watermark, stage) if run_own else None
    broker = stage.broker
    incidents = list[str]()
    run, replay_result = (
        _count_from_kafka(stage, broker, incidents) if broker else _count_files(stage)
    )
    true_counts = truth(_read_written(stage))
    measured_outcomes = [
        compute_noted_outcome(
            run, true_counts, replay_result, cuts_of(stage.url, stage.flights.window_ends)
        )
    ]
    if own_run:
        landed_flights = stage.flights.landed
        measured_outcomes += [
            compute_own_outcome(own_run.result(), hours, true_counts, landed_flights)
            for hours in DELAY_HOURS
        ]
    predicted_outcomes = [
        own_watermark(stage.flights, delay_ms) for delay_ms in choose_delays(stage.flights)
    ]
    both = tuple(measured_outcomes), (simulate_noted_time(stage.flights), *predicted_outcomes)
    return Findings(*both, tuple(incidents))


def _read_written(stage: Stage) -> DataFrame:
    """Return all rows of the log, read without noted time."""
    reader = stage.spark.read
    if stage.store:
        return stage.spark.createDataFrame(read_parquet(f"{stage.log}/{STREAM}"))
    return (
        kafka.read(reader, stage.bootstrap)
        if stage.broker
        else reader.parquet(f"{stage.log}/{STREAM}")
    )


def _count_files(stage: Stage) -> tuple[Run, Replayed]:
    """Let the carriers write the file log, and count it under noted time."""
    stops = list(steps(stage.flights))
    report_step = stage.bar(
        "The carriers write, and note", len(stops), describe_parts(divide_by_steps(stops))
    )
    with start_carriers(stage.flights.carriers, stage.log, stage.url) as carriers:
        replay_result = replay(stops, carriers.take, on_step=report_step)
    return stage.beside.submit(_count_under_noted_time, stage).result(), replay_result


def _count_from_kafka(stage: Stage, broker: Broker, incidents: list[str]) -> tuple[Run, Replayed]:
    """Let the carriers produce to Kafka while a query runs under noted time.

    After a third of the stops a partition is added, after two thirds a carrier is killed.
    """
    stops = list(steps(stage.flights))
    landings = [stop.clock for stop in stops[len(stops) * 2 // 3 :] if stop.landed]
    report_step = stage.bar(
        "The carriers write, and note", len(stops), describe_parts(divide_by_steps(stops))
    )
    with kafka.start_carriers(broker, stage.url, stage.flights.carriers) as carriers:
        live = stage.beside.submit(_count_live, stage, until=stops[-1].clock)

        def take(stop: Step) -> Mapping[int, int]:
            if stop is stops[len(stops) // 3]:
                incidents.append(carriers.grow())
            if stop.clock == landings[0]:
                incidents.append(carriers.kill_one(stop.landed))
            return carriers.take(stop)

        try:
            replay_result = replay(stops, take, on_step=report_step)
        except BaseException:
            for query in stage.spark.streams.active:
                query.stop()  # it would wait for ever for a carrier that has ended
            raise
    return live.result(), replay_result


def _count_live(stage: Stage, until: int) -> Run:
    """Run the query under noted time until the watermark is at `until`, in Unix ms."""
    hour_count = len(stage.flights.window_ends)
    report_step = stage.bar(
        "Spark counts live",
        hour_count,
        lambda done_count: f"{done_count:,} of {hour_count:,} hours are out",
    )
    checkpoint = stage.directory / "noted"
    place = stage.spark, stage.bootstrap, stage.url, str(checkpoint)
    counts = hourly(kafka.read_noted(*place))
    return run_until(until, counts, checkpoint, lambda run: report_step(len(find_batches(run, 0))))


def _count_under_own_watermark(stage: Stage) -> Run:
    """Run the query under Spark's own watermark, at all tried delays."""
    batches = list(merge_minutes(stage.flights))
    report_step = stage.bar(
        "Spark counts under its own watermark",
        len(batches) + 1,
        describe_parts(divide_by_batches(batches)),
    )
    archive = stage.directory / "archive"
    write_archive(archive, batches)
    flights = add_own_watermarks(read_archive(stage.spark, archive), DELAY_HOURS)
    own_directory = stage.directory / "own"
    return run_to_the_end(
        hourly(flights), own_directory, lambda run: report_step(len(run.given_out))
    )


def _count_under_noted_time(stage: Stage) -> Run:
    landed_flights = stage.flights.landed
    rows_per_batch = max(LEAST_ROWS, len(landed_flights) // MOST_BATCHES)
    batches = [
        landed_flights[start : start + rows_per_batch]
        for start in range(0, len(landed_flights), rows_per_batch)
    ]
    report_step = stage.bar(
        "Spark counts under noted time",
        len(batches) + 1,
        describe_parts(divide_by_batches(batches)),
    )
    flights = read_noted(stage.spark, stage.log, stage.url, Batches(rows_per_batch))
    noted_directory = stage.directory / "noted"
    return run_to_the_end(
        hourly(flights), noted_directory, lambda run: report_step(len(run.given_out))
    )


def cuts_of(url: str, window_ends: Iterable[int], domain: str = DOMAIN) -> Cuts:
    """Return the cut that closes each hourly window, from the controller's marks."""
    with ReaderClient(STREAM, controller=url) as reader:
        reader.catch_up()
        return {end: dict(reader.cut_at(end, domain).cut.offsets) for end in window_ends}
