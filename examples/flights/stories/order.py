"""The topic gets a partition in mid-month, and is read later: by share, and by time (PDP-28).

Flights are keyed by carrier, as a Kafka producer would. From the middle on there is one segment
more, and it begins there. Whoever reads all segments side by side reads it two weeks too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from examples.flights.canvas import GREY, NOTED, OWN, headed, plain
from examples.flights.data import DAY_MS, HOUR_MS
from examples.flights.measurement import given_out, lost_rows
from examples.flights.query import hourly, truth, with_noted_time
from examples.flights.replay import EVENT_TIME, SEGMENTS, STREAM
from examples.flights.stories.stage import Told, results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from examples.flights.data import Flights
    from examples.flights.measurement import Truth
    from examples.flights.replay import Placement
    from examples.flights.run import Run
    from examples.flights.stories.stage import Stage
    from spark_integration.time_order import Order

ROWS_PER_BATCH = 400
TITLE = "A log whose last segment begins in the middle of its time"
HEADINGS = (
    *("order", "batches", "rows out of order by", "most hours in one batch"),
    *("most state rows", "rows lost"),
)
COLOURS = {"share": OWN, "time": NOTED}
ABOVE: dict[str, Any] = {"xytext": (-6, 8), "horizontalalignment": "right"}
"""Above a line that rises, to the left of one of its points."""

Times = dict[int, list[int]]
"""Segment → the departures of its rows in Unix ms, by offset."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one order read the log: the offsets reached after each batch, from none on.

    >>> reading = Reading("share", [{}, {0: 1, 1: 1}, {0: 2, 1: 1}], {0: [10, 30], 1: [90]}, 5, 0)
    >>> reading.spans(), reading.disorder_ms
    ([(10, 90), (30, 30)], 20.0)
    """

    order: Order
    positions: Sequence[Mapping[int, int]]
    times: Times
    most_state_rows: int
    lost: int

    def batches(self) -> list[dict[int, list[int]]]:
        """Return the departures that each batch read, by segment."""
        return [
            {
                segment: times[start.get(segment, 0) : end.get(segment, 0)]
                for segment, times in self.times.items()
            }
            for start, end in pairwise(self.positions)
        ]

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last departure of each batch with rows."""
        read = (list(chain.from_iterable(batch.values())) for batch in self.batches())
        return [(min(rows), max(rows)) for rows in read if rows]

    @property
    def disorder_ms(self) -> float:
        """How far a row lies before the newest of the batches before its own, on average."""
        newest, total, count = 0, 0, 0
        for batch in self.batches():
            rows = list(chain.from_iterable(batch.values()))
            total += sum(max(0, newest - row) for row in rows)
            count += len(rows)
            newest = max([newest, *rows])
        return total / count


def opening(flights: Flights) -> list[str]:
    """Say what is going to happen."""
    keys = (
        f"The carriers' flights go to a log by key, to {SEGMENTS - 1} segments, and from the "
        f"middle on to {SEGMENTS}: somebody added a partition."
    )
    counts = (
        f"Then Spark counts departures per hour, {ROWS_PER_BATCH} rows in a micro-batch: once with "
        'order="share", each segment in proportion to what it has left, once with order="time", up '
        "to a mark."
    )
    written = f"All {len(flights.landed):,} are written and noted before anybody reads."
    return [keys, written, counts]


def play(stage: Stage) -> Told:
    """Write, read in both orders, and compare."""
    stage.replay(keyed(stage.flights))
    times = times_of(stage.log / STREAM)
    counted = stage.beside.submit(truth, stage.spark, stage.log).result()
    readings = [_read(stage, order, times, counted) for order in ("share", "time")]
    return Told(
        table=results(TITLE, HEADINGS, map(_cells, readings), ours="time"),
        meaning=(_meaning(*readings),),
        figures={reading.order: _figures(reading) for reading in readings},
        picture=picture(readings),
        broken=tuple(
            f'order="{reading.order}" lost {reading.lost:,} rows.'
            for reading in readings
            if reading.lost
        ),
    )


def keyed(flights: Flights) -> Placement:
    """Return a placement by carrier, over one segment more from the middle of the replay on."""
    numbers = {carrier: number for number, carrier in enumerate(flights.carriers)}
    middle = (flights.landed[0].landing + flights.landed[-1].landing) // 2

    def place(carrier: str, clock: int, _ends: Mapping[int, int]) -> int:
        return numbers[carrier] % (SEGMENTS if clock >= middle else SEGMENTS - 1)

    return place


def times_of(log: Path) -> Times:
    """Return the departures in the log of a stream."""
    times: Times = {}
    for segment in range(SEGMENTS):
        column = pq.read_table(log / f"partition={segment}", partitioning=None)[EVENT_TIME]
        times[segment] = column.cast("int64").to_pylist()
    return times


def _read(stage: Stage, order: Order, times: Times, counted: Truth) -> Reading:
    rows = with_noted_time(stage.spark, stage.log, stage.url, max_rows=ROWS_PER_BATCH, order=order)
    batches = -(-len(stage.flights.landed) // ROWS_PER_BATCH)
    run = stage.count(hourly(rows), f"by {order}", batches)
    lost = lost_rows(given_out(run, 0), counted, run.watermark)
    return Reading(order, _positions(run), times, max(run.state_rows.values()), lost)


def _positions(run: Run) -> list[Mapping[int, int]]:
    return [{}, *(run.positions[number] for number in sorted(run.positions))]


def _cells(reading: Reading) -> tuple[str, ...]:
    return (
        reading.order,
        str(len(reading.spans())),
        f"{reading.disorder_ms / HOUR_MS:.1f} h",
        f"{_widest_ms(reading) / HOUR_MS:.0f} h",
        f"{reading.most_state_rows:,}",
        f"{reading.lost:,}",
    )


def _widest_ms(reading: Reading) -> int:
    return max(last - first for first, last in reading.spans())


def _figures(reading: Reading) -> dict[str, Any]:
    return {
        "batches": len(reading.spans()),
        "mean_disorder_hours": round(reading.disorder_ms / HOUR_MS, 3),
        "most_hours_in_a_batch": round(_widest_ms(reading) / HOUR_MS, 3),
        "most_state_rows": reading.most_state_rows,
        "lost": reading.lost,
    }


def _meaning(share: Reading, time: Reading) -> str:
    return (
        "The results are equal: the watermark is exact in either order. But by share the new "
        "segment is read from the first batch on, while the others are still at the beginning, "
        f"and its hours stay open: {share.most_state_rows:,} rows of state, "
        f"{time.most_state_rows:,} by time. The marks alone say which rows belong together in "
        "time; nothing else was stored for it."
    )


def picture(readings: Sequence[Reading]) -> Figure:
    """Draw how far each segment was read, by share and by time."""
    share, time = (reading.disorder_ms / HOUR_MS for reading in readings)
    figure = headed(
        f"Rows out of order by {time:.1f} hours, not {share:.0f}",
        "How far each of the four segments is read while a query catches up; the last one was "
        "added in the middle",
    )
    days = figure.add_axes((0.085, 0.125, 0.43, 0.62))
    _draw(days, readings[0])
    _draw(figure.add_axes((0.54, 0.125, 0.43, 0.62), sharey=days), readings[1])
    days.set_ylabel("departures read, day of the log", color=GREY)
    return figure


def _draw(axes: Axes, reading: Reading) -> None:
    plain(axes)
    colour = COLOURS[reading.order]
    begin = min(times[0] for times in reading.times.values())
    spans = [((low - begin) / DAY_MS, (high - begin) / DAY_MS) for low, high in reading.spans()]
    numbers = range(1, len(spans) + 1)
    lows, highs = zip(*spans, strict=True)
    axes.fill_between(numbers, lows, highs, color=colour, alpha=0.15, linewidth=0)
    for segment in reading.times:
        read = [
            (number, (max(batch[segment]) - begin) / DAY_MS)
            for number, batch in enumerate(reading.batches(), start=1)
            if batch[segment]
        ]
        axes.plot(*zip(*read, strict=True), color=colour, linewidth=1.8)
    style: dict[str, Any] = {"color": colour, "fontsize": 10.5, "textcoords": "offset points"}
    middle = read[len(read) // 2]
    axes.annotate("the segment added", middle, **ABOVE, **style)
    axes.set_title(f'order="{reading.order}"', loc="left", color=colour, weight="bold")
    axes.set_xlabel("micro-batch", color=GREY)
