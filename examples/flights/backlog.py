"""A query comes a month late and catches up while the carriers continue to write (FLIP-328).

It plays twice, over two streams that are written alike: once with larger micro-batches for as long
as there is a backlog, once with the limit that keeps the live query quick all along.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from examples.flights.catch_up import CatchUp, batches_of
from examples.flights.data import DAY_MS, HOUR_MS, hour_after
from examples.flights.measurement import given_out, lost_rows
from examples.flights.picture import GREY, NOTED, OWN, headed, plain
from examples.flights.query import hourly, run_to_the_end, run_until, truth, with_noted_time
from examples.flights.replay import STREAM, at_work, replay
from examples.flights.schedule import steps
from examples.flights.stage import Result, table
from noted_time import BacklogPolicy
from spark_integration import Batches
from spark_integration import CatchUp as Larger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from examples.flights.data import Flights
    from examples.flights.measurement import Truth
    from examples.flights.query import Run
    from examples.flights.replay import Carriers
    from examples.flights.stage import Stage

BEHIND_MS = DAY_MS
LIVE_HOURS = 60
LIVE_SHARE = 3
HOURS_PER_SECOND = 2
PAST_STEP_MS = 12 * HOUR_MS
USUAL_BATCHES = 24
LEAST_ROWS = 50
LARGER = 10

WITH, WITHOUT = "backlog policy", "one limit"
STREAMS = {WITH: STREAM, WITHOUT: f"{STREAM}-again"}
TITLE = "A query that comes late, while the carriers continue"
HEADINGS = ("limit", "batches", "caught up in", "rows/s", "live batch", "rows lost")
COLOURS = {WITH: NOTED, WITHOUT: OWN}
LEGENDS = {WITH: "with a backlog policy", WITHOUT: "with one limit all along"}


class Side:
    """One of the two streams, its carriers, and the query that comes to it."""

    def __init__(self, stage: Stage, name: str, carriers: Carriers) -> None:
        """Start with an empty log; the carriers have joined."""
        self.name = name
        self._stage = stage
        self._carriers = carriers
        self._past, self._live = clocks(stage.flights)
        self._steps = steps(stage.flights, [*self._past, *self._live])

    def write_the_past(self) -> None:
        """Let the carriers write and note as fast as possible."""
        done = self._stage.bar(f"The past is written, {self.name}", len(self._past))
        replay(islice(self._steps, len(self._past)), self._carriers.take, on_step=done)

    def count_live(self) -> Run:
        """Start the query while the carriers continue at their pace."""
        checkpoint = self._stage.directory / STREAMS[self.name]
        done = self._stage.bar(f"A query catches up, {self.name}", len(self._live))
        until, take = self._live[-1], self._carriers.take
        run = self._stage.beside.submit(lambda: run_until(until, self.counts(), checkpoint))
        replay(self._steps, take, hours_per_second=HOURS_PER_SECOND, on_step=done)
        return run.result()

    def counts(self) -> DataFrame:
        """Return the departures per hour and origin, as the query of this side counts them."""
        rows = usual_rows(self._stage.flights)
        larger = Larger(BacklogPolicy(behind_ms=BEHIND_MS), LARGER * rows)
        return hourly(
            with_noted_time(
                self._stage.spark,
                self._stage.log,
                self._stage.url,
                Batches(rows),
                *([larger] if self.name == WITH else []),
                stream=STREAMS[self.name],
            )
        )


def opening(flights: Flights) -> list[str]:
    """Return sentences that announce the story."""
    rows, hours = usual_rows(flights), len(clocks(flights)[1])
    late = (
        f"Spark counts departures per hour, {rows:,} rows in a micro-batch, but it comes late: all "
        f"except the last {hours} hours is written and noted. While it catches up, the carriers "
        f"write and note those {hours} hours live, {HOURS_PER_SECOND} a second."
    )
    twice = (
        "It does so twice, over two streams that are written alike. The first time it has a "
        f"backlog policy: up to {LARGER * rows:,} rows in a micro-batch while it is more than "
        f"{BEHIND_MS // HOUR_MS} hours behind."
    )
    return [late, twice]


def play(stage: Stage) -> Result:
    """Write the past of both streams, start a query on each, and compare."""
    with ExitStack() as stack:

        def side(name: str) -> Side:
            joined = at_work(stage.flights.carriers, stage.log, stage.url, STREAMS[name])
            return Side(stage, name, stack.enter_context(joined))

        sides = [side(name) for name in STREAMS]
        sides[0].write_the_past()
        warm = stage.beside.submit(run_to_the_end, sides[0].counts(), stage.directory / "warm")
        sides[1].write_the_past()
        warm.result()
        runs = {side.name: side.count_live() for side in sides}
    counted = stage.beside.submit(truth, stage.written()).result()
    return _result([_catch_up(name, run, counted, stage.flights) for name, run in runs.items()])


def clocks(flights: Flights) -> tuple[Sequence[int], Sequence[int]]:
    """Return when the carriers stop before the query comes, and when after; in Unix ms."""
    first, end = flights.landed[0].landing, hour_after(flights.landed[-1].landing)
    live_ms = min(LIVE_HOURS * HOUR_MS, (end - first) // LIVE_SHARE)
    query_comes = hour_after(end - live_ms)
    past = range(query_comes, first, -PAST_STEP_MS)
    return past[::-1], range(query_comes + HOUR_MS, end + 1, HOUR_MS)


def usual_rows(flights: Flights) -> int:
    """Return how many rows a quick micro-batch has."""
    return max(LEAST_ROWS, len(flights.landed) // USUAL_BATCHES // LEAST_ROWS * LEAST_ROWS)


def _catch_up(name: str, run: Run, counted: Truth, flights: Flights) -> CatchUp:
    begin = min(flight.departure for flight in flights.landed)
    behind = run.progress[0]["sources"][0]["latestOffset"]["last_lower"] - begin
    sums: Counter[tuple[int, str]] = Counter()
    for _, count in given_out(run, 0):
        sums[count.end, count.origin] += count.flights
    lost = lost_rows(given_out(run, 0), counted, run.watermark)
    return CatchUp(name, behind, batches_of(run.progress, begin), lost, sums)


def _result(catch_ups: Sequence[CatchUp]) -> Result:
    ours, other = catch_ups
    broken = [f"{each.name}: {each.lost:,} rows were lost." for each in catch_ups if each.lost]
    if ours.counted != other.counted:
        broken.append("The two queries counted differently.")
    return Result(
        table=table(TITLE, HEADINGS, map(_cells, catch_ups), ours=WITH),
        meaning=(_meaning(ours, other),),
        figures={each.name: _figures(each) for each in catch_ups},
        picture=_picture(ours, other),
        broken=tuple(broken),
    )


def _cells(each: CatchUp) -> tuple[str, ...]:
    return (
        each.name,
        str(len(each.catching_up)),
        f"{each.caught_up_s:.1f} s",
        f"{each.rows_per_second:,.0f}",
        "-" if each.live_ms is None else f"{each.live_ms:.0f} ms",
        f"{each.lost:,}",
    )


def _figures(each: CatchUp) -> dict[str, Any]:
    return {
        "batches_until_caught_up": len(each.catching_up),
        "caught_up_seconds": each.caught_up_s,
        "rows_per_second": round(each.rows_per_second),
        "median_live_batch_ms": each.live_ms,
        "flag_until_seconds": each.flag_until_s,
        "counted": sum(each.counted.values()),
        "lost": each.lost,
    }


def _meaning(ours: CatchUp, other: CatchUp) -> str:
    sooner = other.caught_up_s / ours.caught_up_s
    live = (
        "Not both have live batches to compare: one caught up when the carriers had finished."
        if ours.live_ms is None or other.live_ms is None
        else "Once it was near, they were small again: a live one took "
        f"{ours.live_ms:.0f} ms in the median, and {other.live_ms:.0f} ms without the policy."
    )
    return (
        f"With the policy the query caught up {sooner:.1f} times as soon, since its micro-batches "
        f"were large while it was behind. {live} The flag comes from the marks alone: by the wall "
        "clock, flights of 2013 would be behind for ever."
    )


def _picture(ours: CatchUp, other: CatchUp) -> Figure:
    figure = headed(
        f"Caught up in {ours.caught_up_s:.1f} seconds, not {other.caught_up_s:.1f}",
        "How far a query that comes late is behind the last mark, while the carriers still write",
    )
    axes = figure.add_axes((0.085, 0.125, 0.885, 0.64))
    plain(axes)
    until = ours.flag_until_s
    axes.axvspan(0, until, color=NOTED, alpha=0.12, linewidth=0)
    axes.text(0, 1.02, "backlog: true", transform=axes.transAxes, color=NOTED, fontsize=10.5)
    for each, height in (ours, 0.94), (other, 0.8):
        _draw(axes, each, height)
    axes.set_xlim(0, 2 * max(each.caught_up_s for each in (ours, other)))
    axes.set_ylim(bottom=-0.02 * ours.behind_ms / HOUR_MS)
    axes.set_xlabel("seconds since the query began", color=GREY)
    axes.set_ylabel("hours behind", color=GREY)
    return figure


def _draw(axes: Axes, each: CatchUp, height: float) -> None:
    seconds = [0.0, *(batch.ended_s for batch in each.batches)]
    hours = [each.behind_ms / HOUR_MS, *(batch.behind_ms / HOUR_MS for batch in each.batches)]
    colour = COLOURS[each.name]
    axes.plot(seconds, hours, color=colour, linewidth=2.2, drawstyle="steps-post")
    place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "color": colour}
    axes.text(0.98, height, LEGENDS[each.name], fontsize=13, weight="bold", **place)
    pace = f"{each.rows_per_second:,.0f} rows/s until it has caught up"
    axes.text(0.98, height - 0.055, pace, fontsize=10.5, **place)
