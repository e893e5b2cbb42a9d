"""Is my table complete? The flights in a Delta table with claims, which others write, too.

The carriers write and note, and a query appends their flights, with a claim in each commit. A
reader looks at the table after each stop of the replay. A judge then compares the claim,
`max(event_time)`, and the truth.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging.handlers import BufferingHandler

from deltalake import DeltaTable
from pyspark.sql.streaming.query import StreamingQuery

from demo import claimed
from demo.data import HOUR_MS, Flights, hour_after
from demo.hours import NOT_YET_STATUS, Hours
from demo.judge import Look, Verdict, judge, read_looks, read_rows
from demo.others import Others
from demo.progress import describe_parts, divide_by_steps
from demo.query import POLLING_DELAY, wait_for_watermark
from demo.replay import EVENT_TIME, STREAM, replay, start_carriers
from demo.schedule import Step, steps
from demo.stage import FLIGHTS_TABLE, Result, Stage
from noted_time_extensions.files import Columns, read_noted_log
from noted_time_extensions.tables import NotedTable, TableClaims, complete_to
from spark_integration import Noted, WatermarkPolicy
from tools.trials.starting import start_query

NAME = "tables"
DAYS = 4
"""The name of the story's files, and how many days it plays by default."""

COLUMNS = Columns(
    schema=f"{EVENT_TIME} timestamp, landing timestamp, carrier string, origin string"
)


def stops_of(flights: Flights) -> list[Step]:
    """Return a stop an hour, until all flights have landed and all hours ended."""
    first = hour_after(flights.landed[0].landing)
    last = hour_after(max(flights.landed[-1].landing, flights.window_ends[-1]))
    return list(steps(flights, range(first, last + HOUR_MS, HOUR_MS)))


def opening(flights: Flights) -> list[str]:
    return [
        (
            f"Each of {len(flights.carriers)} carriers is a writer, and notes. Every hour of the "
            "replay a Spark query appends the landed flights to a Delta table, and claims in the "
            "same commit to which time it is complete."
        ),
        (
            "Others write to the table, too: it is compacted, and overwritten with an old copy. A "
            "judge compares the claim, max(event_time) and the truth, by the files of each version."
        ),
        (
            "A batch job counts hours by carrier from the table, and its table inherits the claim. "
            "While a carrier holds back the watermark, a reader asks why hours are not complete."
        ),
    ]


def play(stage: Stage) -> Result:
    """Fill the table while others write to it, and judge the claims about it."""
    stops = stops_of(stage.flights)
    looks = list[Look]()
    other_programs = Others(str(stage.out / FLIGHTS_TABLE), stops, looks)
    hours = Hours(stage.out / FLIGHTS_TABLE, stage.url, stops[: other_programs.overwritten_at])
    logging.getLogger("noted_time.spark").addHandler(handler := BufferingHandler(10 * len(stops)))
    with (
        start_carriers(stage.flights.carriers, stage.log, stage.url) as carriers,
        _filling(stage, other_programs.location) as query,
    ):

        def take(stop: Step) -> Mapping[int, int]:
            ends = carriers.take(stop)
            query.processAllAvailable()
            wait_for_watermark(query, min(stop.notes.values()))
            other_programs.act()
            looks.append(look_at(other_programs.location, stop.clock))
            hours.act(stop)
            return ends

        description = "Carriers write, Spark fills the table"
        describe = describe_parts(divide_by_steps(stops))
        report_step = stage.bar(description, len(stops), describe)
        replay(stops, take, on_step=report_step)
    looks_read = list(read_looks(other_programs.location, looks))
    warnings = [
        record.getMessage().replace(other_programs.location, FLIGHTS_TABLE)
        for record in handler.buffer
    ]
    ends = stage.flights.window_ends
    claim = judge(claimed.CLAIM, looks_read, ends, lambda look: look.claim)
    verdicts = claim, judge(claimed.NEWEST, looks_read, ends, lambda look: look.newest)
    return Result(
        table=claimed.table(verdicts),
        meaning=claimed.meaning(verdicts, other_programs, warnings, hours),
        figures=claimed.figures(verdicts, other_programs) | {"answer": hours.answer},
        broken=tuple(_broken(claim, stage.flights, other_programs.location, hours)),
    )


def look_at(location: str, clock: int) -> Look:
    status = complete_to(f"delta:{location}")
    version = DeltaTable(location).version()
    return Look(clock, version, None if status is None else status.complete_to)


@contextmanager
def _filling(at: Stage, location: str) -> Iterator[StreamingQuery]:
    """Append the flights to the table during the block."""
    at.spark.conf.set(POLLING_DELAY, "50ms")
    checkpoint = str(at.directory / "filling")
    flights = read_noted_log(
        at.spark,
        at.log,
        Noted(STREAM, controller=at.url),
        COLUMNS,
        event_time=EVENT_TIME,
        policy=WatermarkPolicy(strict=False, batch_after_mark=True),
    )
    save = NotedTable(
        f"delta:{location}", TableClaims(checkpoint, STREAM, EVENT_TIME, controller=at.url)
    )
    writer = flights.writeStream.foreachBatch(save).option("checkpointLocation", checkpoint)
    query = start_query(writer.start)
    try:
        yield query
    finally:
        query.stop()


def _broken(claim: Verdict, flights: Flights, location: str, hours: Hours) -> Iterator[str]:
    if claim.wrong:
        yield f"The claim called {claim.wrong:,} hours complete wrongly."
    rows = list(read_rows(location).elements())
    if sorted(rows) != list(flights.landed):
        yield f"The table has {len(rows):,} flights, and {len(flights.landed):,} landed."
    if hours.status != NOT_YET_STATUS:
        yield f"`{hours.asked}` ended with status {hours.status}: {hours.answer}"
