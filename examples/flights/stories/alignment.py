"""Departures and landings are joined, and the departures can be read a month ahead (max drift).

Both streams lie in logs. The departures are read as fast as it goes, the landings a few rows in a
micro-batch: the join keeps every departure until the landings have come to its time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from examples.flights.canvas import GREY, NOTED, OWN, headed, plain
from examples.flights.data import DAY_MS, HOUR_MS
from examples.flights.replay import INSTANT, PATIENCE_S, create_stream
from examples.flights.run import progress_of, running
from examples.flights.stories.stage import Told, results
from spark_integration import read_noted_log
from writer_client import SegmentLogWriter, WriterClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from examples.flights.data import Flights
    from examples.flights.stories.stage import Stage

DEPARTURES, LANDINGS = "departures", "landings"
WRITER = "tower"
ALIGNMENT = "flights"
STOP_MS = 2 * HOUR_MS
LONGEST_FLIGHT = "12 hours"
SAME_FLIGHT = f"""departures_number = landings_number AND landings_time
    BETWEEN departures_time AND departures_time + INTERVAL {LONGEST_FLIGHT}"""
BATCHES = 30
LEAST_ROWS = 100
ROUND = 50

WITH, WITHOUT = "aligned", "not aligned"
TITLE = "Departures joined with landings, which are read slowly"
HEADINGS = ("join", "batches", "took", "ahead by", "most state rows", "joined")
COLOURS = {WITH: NOTED, WITHOUT: OWN}

Events = list[tuple[int, int]]
"""(time in Unix ms, number of the flight), sorted."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: how far both sides were read at its end, in Unix ms, and the state then."""

    departures: int
    landings: int
    state_rows: int
    took_ms: int


@dataclass(frozen=True, slots=True)
class Joined:
    """How a join went: its batches, and (number, ms in the air) of the flights that it found."""

    name: str
    batches: Sequence[Batch]
    found: Counter[tuple[int, int]]

    @property
    def most_state_rows(self) -> int:
        """The most that the join kept at a batch's end."""
        return max(batch.state_rows for batch in self.batches)

    @property
    def most_ahead_ms(self) -> int:
        """How far the departures were ahead of the landings at most."""
        return max(batch.departures - batch.landings for batch in self.batches)

    @property
    def took_s(self) -> float:
        """How long all batches took together."""
        return sum(batch.took_ms for batch in self.batches) / 1000


def opening(flights: Flights) -> list[str]:
    """Say what is going to happen."""
    written = (
        f"The flights go to two streams: {DEPARTURES}, each written when it departs, and "
        f"{LANDINGS}, each written when it lands."
    )
    joined = (
        "Then Spark joins the two per flight, over all that is written. It reads the departures "
        f"as fast as it goes, and {slow_rows(flights):,} landings in a micro-batch. It does so "
        "twice; the second time the two are aligned, with a drift of "
        f"{drift_ms(flights) // HOUR_MS} hours."
    )
    return [written, joined]


def play(stage: Stage) -> Told:
    """Write both streams, join them without and with the alignment, and compare."""
    _write(stage)
    drift, url = drift_ms(stage.flights), f"{stage.url}/v1/alignments/{ALIGNMENT}"
    httpx.put(url, json={"max_drift": drift}, trust_env=False).raise_for_status()
    free, aligned = (_join(stage, name) for name in (WITHOUT, WITH))
    return Told(
        table=results(TITLE, HEADINGS, map(_cells, (free, aligned)), ours=WITH),
        meaning=(_meaning(free, aligned, drift),),
        figures={each.name: _figures(each) for each in (free, aligned)},
        picture=_picture(free, aligned),
        broken=tuple(
            f"{each.name}: {wrong:,} flights were lost, or joined twice."
            for each in (free, aligned)
            if (wrong := wrongly_joined(each, stage.flights))
        ),
        stream=LANDINGS,
    )


def slow_rows(flights: Flights) -> int:
    """Return how many landings a micro-batch has, a round number."""
    return max(LEAST_ROWS, len(flights.landed) // BATCHES // ROUND * ROUND)


def drift_ms(flights: Flights) -> int:
    """Return how far the departures may be ahead, in full hours.

    In a micro-batch both sides go on by about as much, so it also says how many of them there are.
    """
    span = flights.landed[-1].landing - flights.landed[0].landing
    return max(STOP_MS, round(span / BATCHES / HOUR_MS) * HOUR_MS)


def events_of(flights: Flights) -> dict[str, Events]:
    """Return what each stream holds; a flight's number is its place in the order of landing."""
    numbered = list(enumerate(flights.landed))
    return {
        DEPARTURES: sorted((flight.departure, number) for number, flight in numbered),
        LANDINGS: [(flight.landing, number) for number, flight in numbered],
    }


def stops(events: Events) -> dict[int, Events]:
    """Return what happened since the stop before by each stop of the writer, in Unix ms.

    >>> stops([(0, 7), (STOP_MS - 1, 8), (3 * STOP_MS, 9)])
    {7200000: [(0, 7), (7199999, 8)], 28800000: [(21600000, 9)]}
    """
    found: dict[int, Events] = {}
    for time, number in events:
        found.setdefault((time // STOP_MS + 1) * STOP_MS, []).append((time, number))
    return found


def batches_of(told: Sequence[dict[str, Any]]) -> list[Batch]:
    """Return the batches from what Spark tells of them, from the first mark of both sides on."""
    batches = []
    for progress in told:
        ends = [source["endOffset"] for source in progress["sources"]]
        lowers = {end["noted_log"]: end["marks"]["default"]["lower"] for end in ends}
        rows = progress["stateOperators"][0]["numRowsTotal"]
        if None not in lowers.values():
            took = progress["durationMs"]["triggerExecution"]
            batches.append(Batch(lowers[DEPARTURES], lowers[LANDINGS], rows, took))
    return batches


def wrongly_joined(joined: Joined, flights: Flights) -> int:
    """Count the flights that are missing from the join, or in it too often."""
    truth = Counter((n, each.landing - each.departure) for n, each in enumerate(flights.landed))
    return (truth - joined.found).total() + (joined.found - truth).total()


def _write(stage: Stage) -> None:
    for stream, events in events_of(stage.flights).items():
        create_stream(stage.url, stream)
        written = stops(events)
        done = stage.bars.bar(f"The {stream} are written and noted", len(written))
        schema = pa.schema({"time": INSTANT, "number": pa.int64()})
        with WriterClient(stage.url, stream, WRITER) as client:
            log = SegmentLogWriter(
                stage.log, stream, client=client, event_time="time", schema=schema
            )
            for number, (clock, rows) in enumerate(written.items(), start=1):
                log.append(pa.table(list(zip(*rows, strict=True)), schema=schema))
                log.note_time(clock)
                client.flush(PATIENCE_S)
                done(number)
            client.finish(timeout=PATIENCE_S)


def _join(stage: Stage, name: str) -> Joined:
    rows = slow_rows(stage.flights)
    batches = len(stage.flights.landed) // rows
    done = stage.bars.bar(f"Spark joins, {name}", batches)
    found: Counter[tuple[int, int]] = Counter()

    def keep(batch: DataFrame, number: int) -> None:
        found.update(tuple(row) for row in batch.collect())
        done(number + 1)

    def run() -> list[dict[str, Any]]:
        pairs = _pairs(stage, rows, ALIGNMENT if name == WITH else None)
        checkpoint = stage.directory / name.replace(" ", "-")
        with running(pairs, checkpoint, keep, availableNow=True) as query:
            query.awaitTermination()
            return progress_of(query)

    told = stage.beside.submit(run).result()
    done(batches)
    return Joined(name, batches_of(told), found)


def _pairs(stage: Stage, landings: int, align: str | None) -> DataFrame:
    """Return the number of each flight, and for how many ms it was in the air."""

    def read(stream: str, most: int | None) -> DataFrame:
        rows = read_noted_log(
            stage.spark,
            stage.log,
            stream,
            controller_url=stage.url,
            event_time="time",
            max_rows_per_trigger=most,
            align=align,
        )
        return rows.withColumnsRenamed({"time": f"{stream}_time", "number": f"{stream}_number"})

    pairs = read(DEPARTURES, None).join(read(LANDINGS, landings), F.expr(SAME_FLIGHT))
    in_the_air = F.unix_millis("landings_time") - F.unix_millis("departures_time")
    return pairs.select("landings_number", in_the_air)


def _cells(each: Joined) -> tuple[str, ...]:
    return (
        each.name,
        str(len(each.batches)),
        f"{each.took_s:.0f} s",
        f"{each.most_ahead_ms / HOUR_MS:.0f} h",
        f"{each.most_state_rows:,}",
        f"{each.found.total():,}",
    )


def _figures(each: Joined) -> dict[str, Any]:
    return {
        "batches": len(each.batches),
        "seconds": each.took_s,
        "most_hours_ahead": round(each.most_ahead_ms / HOUR_MS, 3),
        "most_state_rows": each.most_state_rows,
        "joined": each.found.total(),
    }


def _meaning(free: Joined, aligned: Joined, drift: int) -> str:
    return (
        "The join finds the same flights. Without an alignment it first takes in all departures "
        "there are, and keeps them until the landings have come to their time: "
        f"{free.most_state_rows:,} rows. Aligned, the departures wait, and it keeps "
        f"{aligned.most_state_rows:,} at most: those of the {LONGEST_FLIGHT} that a flight may "
        f"take, of the drift of {drift // HOUR_MS} hours, and of one micro-batch."
    )


def _picture(free: Joined, aligned: Joined) -> Figure:
    figure = headed(
        f"The join keeps {aligned.most_state_rows:,} rows at most, not {free.most_state_rows:,}",
        "A join of two streams, one of which can be read to its end at once",
    )
    axes = figure.add_axes((0.095, 0.125, 0.875, 0.68))
    plain(axes)
    begin = aligned.batches[0].landings // DAY_MS * DAY_MS
    for each in (free, aligned):
        _draw(axes, each, begin)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.08 * free.most_state_rows)
    axes.set_xlabel("landings read, day of the log", color=GREY)
    axes.set_ylabel("rows of state", color=GREY)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return figure


def _draw(axes: Axes, each: Joined, begin: int) -> None:
    days = [(batch.landings - begin) / DAY_MS for batch in each.batches]
    rows = [batch.state_rows for batch in each.batches]
    axes.plot(days, rows, color=COLOURS[each.name], linewidth=2.2)
    style: dict[str, Any] = {"color": COLOURS[each.name], "fontsize": 13, "weight": "bold"}
    height = 0.84 if each.name == WITH else 0.92
    axes.text(0.98, height, each.name, transform=axes.transAxes, ha="right", **style)
