"""Is my table complete? The flights in a Delta table with claims, to which others write, too.

The carriers write and note, and a query appends their flights to the table, with a claim in each
commit. After each stop of the replay, a reader looks at the table. In the end a judge compares what
the claim said, what `max(event_time)` would have said, and the truth.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from demo import claimed
from demo.data import HOUR_MS, hour_after
from demo.judge import FOREIGN, Look, judged, rows_of, seen
from demo.others import Others
from demo.query import LOOK_S, unix_ms
from demo.replay import EVENT_TIME, STREAM, at_work, replay
from demo.schedule import steps
from demo.stage import Result
from demo.starting import started
from noted_time.tables import complete_to
from spark_integration import (
    Columns,
    Noted,
    NotedTable,
    TableClaims,
    WatermarkPolicy,
    read_noted_log,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from demo.data import Flights
    from demo.judge import Seen, Verdict
    from demo.schedule import Step
    from demo.stage import Stage

NAME, DAYS = "tables", 4
"""The name of the story's files, and how many days it plays by default."""

TABLE = "flights-table"
COLUMNS = Columns(
    schema=f"{EVENT_TIME} timestamp, landing timestamp, carrier string, origin string"
)
MOST_STOPS = 120
"""The replay stops every hour; if it had more stops than that, every few hours."""

POLLING_DELAY = "spark.sql.streaming.pollingDelay"


def hours_between(flights: Flights) -> int:
    """Return how many hours are between two stops."""
    return -(-len(range(*_span(flights), HOUR_MS)) // MOST_STOPS)


def stops_of(flights: Flights) -> list[Step]:
    """Return the stops of the replay, the last when all have landed and all hours have ended."""
    first, last = _span(flights)
    every = hours_between(flights) * HOUR_MS
    return list(steps(flights, range(first, last + every, every)))


def _span(flights: Flights) -> tuple[int, int]:
    """Return the full hours after the first landing and after the last one."""
    last = max(flights.landed[-1].landing, flights.window_ends[-1])
    return hour_after(flights.landed[0].landing), hour_after(last)


def opening(flights: Flights) -> list[str]:
    """Return sentences that announce the story."""
    every = hours_between(flights)
    written = (
        f"Each of {len(flights.carriers)} carriers is a writer, and notes. Every "
        f"{'hour' if every == 1 else f'{every} hours'} of the replay a Spark query appends what "
        "has landed to a Delta table, and claims in the same commit up to when it is complete."
    )
    others = (
        "Others write to the table, too: it is compacted, gets a row with a wrong date, and is "
        "overwritten with an old copy. A judge compares the claim, max(event_time) and the truth, "
        "by the files of each version alone."
    )
    return [written, others]


def play(at: Stage) -> Result:
    """Fill the table while others write to it, and judge what was said of it."""
    return at.beside.submit(_play, at).result()


def _play(at: Stage) -> Result:
    stops, looks = stops_of(at.flights), list[Look]()
    others = Others(at.directory / TABLE, stops, looks)
    with (
        _warnings() as warnings,
        at_work(at.flights.carriers, at.log, at.url) as carriers,
        _filling(at, others.location) as query,
    ):

        def take(stop: Step) -> Mapping[int, int]:
            ends = carriers.take(stop)
            _wait_for(query, min(stop.notes.values()))
            others.act()
            looks.append(look_at(others.location, stop.clock))
            return ends

        done = at.bar("Carriers write, Spark fills the table, others do, too", len(stops))
        replay(stops, take, on_step=done)
    found = list(seen(others.location, looks))
    shown = [each.replace(others.location, TABLE) for each in warnings]
    verdicts = verdicts_of(found, at.flights.window_ends)
    return Result(
        table=claimed.table(verdicts),
        meaning=claimed.meaning(verdicts, others, shown),
        figures=claimed.figures(verdicts, others),
        picture=claimed.draw(found, verdicts, others),
        broken=tuple(_broken(verdicts, at.flights, others.location)),
    )


def look_at(location: str, clock: int) -> Look:
    """Return what a reader of the table finds now."""
    found = complete_to(f"delta:{location}")
    version = DeltaTable(location).version()
    return Look(clock, version, None if found is None else found.complete_to)


def verdicts_of(found: Sequence[Seen], ends: Sequence[int]) -> tuple[Verdict, ...]:
    """Return how right each method was, the truth first and the claim after it."""
    return (
        judged(claimed.TRUTH, found, ends, lambda look: look.truth),
        judged(claimed.CLAIM, found, ends, lambda look: look.claim),
        judged(claimed.NEWEST, found, ends, lambda look: look.newest),
        judged(claimed.GUESS, found, ends, _guessed),
    )


def _guessed(look: Seen) -> int | None:
    return None if look.newest is None else look.newest - claimed.GUESS_HOURS * HOUR_MS


@contextmanager
def _filling(at: Stage, location: str) -> Iterator[StreamingQuery]:
    """Append the flights to the table while the block lasts."""
    at.spark.conf.set(POLLING_DELAY, "50ms")
    checkpoint = str(at.directory / "filling")
    flights = read_noted_log(
        at.spark,
        at.log,
        Noted(at.url, STREAM),
        COLUMNS,
        event_time=EVENT_TIME,
        policy=WatermarkPolicy(strict=False, batch_after_mark=True),
    )
    save = NotedTable(f"delta:{location}", TableClaims(checkpoint, STREAM, EVENT_TIME))
    writer = flights.writeStream.foreachBatch(save).option("checkpointLocation", checkpoint)
    query = started(writer.start)
    try:
        yield query
    finally:
        query.stop()


def _wait_for(query: StreamingQuery, lower: int) -> None:
    """Wait until the query has written all rows, and a batch under the watermark `lower` (ms)."""
    query.processAllAvailable()
    while query.isActive:
        last = query.lastProgress
        if last and unix_ms(last.eventTime["watermark"]) >= lower:
            return
        time.sleep(LOOK_S)
    query.awaitTermination()  # raises the query's error


class _Kept(logging.Handler):
    """Keeps what is logged as sentences."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.said.append(record.getMessage())


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Yield the warnings of queries, which are kept instead of shown while the block lasts."""
    log, kept = logging.getLogger("noted_time.spark"), _Kept()
    log.addHandler(kept)
    try:
        yield kept.said
    finally:
        log.removeHandler(kept)


def _broken(verdicts: Sequence[Verdict], flights: Flights, location: str) -> Iterator[str]:
    """Yield the promises that were not kept."""
    claim = verdicts[1]
    if claim.wrong:
        yield f"The claim called {claim.wrong:,} hours complete wrongly."
    rows = rows_of(location)
    own = [row for row in rows.elements() if row.carrier != FOREIGN]
    if sorted(own) != list(flights.landed):
        yield f"The table has {len(own):,} flights, and {len(flights.landed):,} landed."
