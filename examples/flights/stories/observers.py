"""A log whose writers do not note: the maximum over partitions, and the minimum that is observed.

Each airport has a segment, and one of them is cut off for a while: its rows come afterwards, all at
once. An observer reads the event times in the footers of the log's files, keeps a clock for each
segment, and notes the least of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import NullLocator
from rich.table import Table

from examples.flights.canvas import GREY, NOTED, OWN, headed, plain
from examples.flights.data import HOUR_MS, Flights
from examples.flights.demo import cuts_of
from examples.flights.measurement import came_in, noted_outcome, own_outcome
from examples.flights.picture import LINEAR_TO, LOSSES
from examples.flights.query import (
    hourly,
    judging_at_once,
    truth,
    with_noted_time,
    with_own_watermark,
    write_archive,
)
from examples.flights.replay import (
    EVENT_TIME,
    PATIENCE_S,
    SCHEMA,
    STREAM,
    Replayed,
    create_stream,
    table,
)
from examples.flights.simulation import BEFORE_ALL_TIME, Windows
from examples.flights.stories.stage import Told
from writer_client import EventTimeNoter, LogTimes, SegmentLogWriter, WriterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from examples.flights.data import Flight
    from examples.flights.measurement import Truth
    from examples.flights.outcome import Outcome
    from examples.flights.run import Run
    from examples.flights.stories.stage import Stage

AIRPORTS = ("EWR", "JFK", "LGA")
"""The airport of each segment."""

CUT_OFF = "LGA"
MOST_CUT_OFF_MS = 48 * HOUR_MS
DELAY_HOURS = (4, 11)
CURVE_MS = range(HOUR_MS // 4, 14 * HOUR_MS + 1, HOUR_MS // 4)

ROWS_PER_LOOK = 150
"""The observers look after so many rows, and the micro-batches of all queries end where they do.

So all rows are judged by the last look before them, and the simulation can say which are lost.
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """What both methods gave at one delay."""

    own: Outcome
    observed: Outcome


@dataclass(frozen=True, slots=True)
class Outage:
    """The time during which an airport is cut off, from `begin` to `end` in Unix ms."""

    begin: int
    end: int

    def known(self, flight: Flight) -> Flight:
        """Return the flight with the time at which it becomes known in place of its landing."""
        hidden = flight.origin == CUT_OFF and self.begin <= flight.landing < self.end
        return flight._replace(landing=self.end) if hidden else flight


def outage_of(flights: Flights) -> Outage:
    """Return the middle third of the replay, or the first two days of it."""
    first, last = flights.landed[0].landing, flights.landed[-1].landing
    third = (last - first) // 3
    return Outage(first + third, first + third + min(third, MOST_CUT_OFF_MS))


def with_outage(flights: Flights) -> Flights:
    """Return the flights as they become known."""
    outage = outage_of(flights)
    return replace(flights, landed=tuple(sorted(map(outage.known, flights.landed))))


def opening(flights: Flights) -> list[str]:
    """Say what is going to happen."""
    outage, delays = outage_of(flights), " and ".join(map(str, DELAY_HOURS))
    hidden = sum(outage.known(flight) != flight for flight in flights.landed)
    writers = (
        "Each airport writes its flights to a segment as they land. Nobody notes time. "
        f"{CUT_OFF} is cut off for {(outage.end - outage.begin) / HOUR_MS:.0f} hours; its "
        f"{hidden} flights of that time are written when it is back."
    )
    observers = (
        f"After each {ROWS_PER_LOOK} rows, observers look at the log and note the least of the "
        f"newest departures of the three segments, less a delay of {delays} h."
    )
    own = "Spark's own watermark takes the greatest of the three, at the same delays."
    return [writers, observers, own]


def play(stage: Stage) -> Told:
    """Write and observe, count under both watermarks, and compare."""
    flights = with_outage(stage.flights)
    own = _count_under_own_watermark(stage, flights)
    replayed = _write_and_observe(stage, flights)
    runs = {hours: _count_observed(stage, hours) for hours in DELAY_HOURS}
    counted = stage.beside.submit(truth, stage.spark, stage.log).result()
    pairs = [
        Pair(
            own_outcome(own.result(), hours, counted, flights.landed),
            _observed(stage.url, hours, run.result(), counted, replayed),
        )
        for hours, run in runs.items()
    ]
    return Told(
        table=_table(pairs),
        meaning=_meaning(pairs[-1]),
        figures={"delays": [_figures(pair) for pair in pairs]},
        picture=_picture(pairs, [_simulated(flights, delay) for delay in CURVE_MS]),
        broken=tuple(_disagreements(flights, pairs)),
    )


def looks(flights: Flights) -> Iterator[tuple[int, dict[int, list[Flight]]]]:
    """Yield the clock of each look, with what became known since the one before, by segment."""
    for first in range(0, len(flights.landed), ROWS_PER_LOOK):
        known = flights.landed[first : first + ROWS_PER_LOOK]
        rows: dict[int, list[Flight]] = {}
        for flight in known:
            rows.setdefault(AIRPORTS.index(flight.origin), []).append(flight)
        yield known[-1].landing, rows


def simulated(flights: Flights, delay_ms: int, choose: Callable[[Iterable[int]], int]) -> Outcome:
    """Return what `max` or `min` over the segments' newest departures gives, without Spark."""
    windows, newest = Windows(), dict.fromkeys(range(len(AIRPORTS)), BEFORE_ALL_TIME)
    watermark = BEFORE_ALL_TIME
    for clock, rows in looks(flights):
        for segment, known in rows.items():
            for flight in known:
                windows.land(flight, watermark)
            newest[segment] = max(newest[segment], *(flight.departure for flight in known))
        watermark = choose(newest.values()) - delay_ms
        windows.close(watermark, clock)
    return windows.outcome(flights, delay_ms)


def _simulated(flights: Flights, delay_ms: int) -> Pair:
    return Pair(simulated(flights, delay_ms, max), simulated(flights, delay_ms, min))


def _disagreements(flights: Flights, pairs: Sequence[Pair]) -> Iterator[str]:
    for pair in pairs:
        if pair != _simulated(flights, pair.own.delay_ms or 0):
            yield f"At {_delay(pair)}, Spark measured something else than the simulation predicts."


def _domain(delay_hours: int) -> str:
    return f"{delay_hours}-hours-back"


def _write_and_observe(stage: Stage, flights: Flights) -> Replayed:
    """Write what became known, then let each observer look once, until the log is whole."""
    create_stream(stage.url, domains=[_domain(delay) for delay in DELAY_HOURS])
    log = SegmentLogWriter(
        stage.log, STREAM, segments=range(len(AIRPORTS)), event_time=EVENT_TIME, schema=SCHEMA
    )
    steps = list(looks(flights))
    done = stage.bars.bar("The airports write, the observers look", len(steps))
    replayed, ends = Replayed(), dict.fromkeys(range(len(AIRPORTS)), 0)
    with ExitStack() as stack:
        observers = [_observer(stage, stack, delay) for delay in DELAY_HOURS]
        for clock, rows in steps:
            for segment, known in rows.items():
                ends[segment] = log.append(table(known), segment=segment)
            for observer in observers:
                observer.look()
                observer.client.flush(PATIENCE_S)
            replayed.clocks.append(clock)
            replayed.cuts.append(dict(ends))
            done(len(replayed.clocks))
    return replayed


def _observer(stage: Stage, stack: ExitStack, delay_hours: int) -> EventTimeNoter:
    """Return an observer that waits for every segment however long it is quiet, as at night."""
    domain = _domain(delay_hours)
    client = WriterClient(stage.url, STREAM, f"observer-{delay_hours}h", domains=[domain])
    stack.enter_context(client)
    times = LogTimes(stage.log, STREAM, EVENT_TIME)
    return EventTimeNoter(
        client, times, delay_ms=delay_hours * HOUR_MS, idle_timeout_ms=0, domain=domain
    )


def _count_under_own_watermark(stage: Stage, flights: Flights) -> Future[Run]:
    batches = [list(chain.from_iterable(rows.values())) for _, rows in looks(flights)]
    archive = stage.directory / "archive"
    write_archive(archive, batches)
    rows = with_own_watermark(stage.spark, archive, DELAY_HOURS)
    return stage.start_count(hourly(rows), "under its own watermark", len(batches) + 1)


def _count_observed(stage: Stage, delay_hours: int) -> Future[Run]:
    rows = with_noted_time(
        judging_at_once(stage.spark),
        stage.log,
        stage.url,
        max_rows=ROWS_PER_LOOK,
        order="time",
        domain=_domain(delay_hours),
    )
    batches = -(-len(stage.flights.landed) // ROWS_PER_LOOK)
    return stage.start_count(hourly(rows), f"observed, {delay_hours} h", batches)


def _observed(url: str, delay_hours: int, run: Run, counted: Truth, replayed: Replayed) -> Outcome:
    cuts = cuts_of(url, came_in(run, 0), _domain(delay_hours))
    outcome = noted_outcome(run, counted, cuts, replayed)
    return replace(outcome, delay_ms=delay_hours * HOUR_MS)


def _table(pairs: Sequence[Pair]) -> Table:
    table = Table(title="Departures per hour; latency in replay time")
    for heading in ("delay", "watermark"):
        table.add_column(heading, no_wrap=True)
    for heading in ("lost", "lost %", "median", "longest"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        table.add_row(_delay(pair), "maximum (Spark)", *_cells(pair.own))
        table.add_row("", "observed minimum", *_cells(pair.observed), style="bold green")
    return table


def _delay(pair: Pair) -> str:
    return f"{(pair.own.delay_ms or 0) / HOUR_MS:g} h"


def _cells(outcome: Outcome) -> tuple[str, ...]:
    hours = (outcome.median_hours, outcome.longest_hours)
    return (
        f"{outcome.lost:,}",
        f"{outcome.lost_percent:.1f}",
        *(f"{each:.1f} h" for each in hours),
    )


def _figures(pair: Pair) -> dict[str, Any]:
    told: dict[str, Any] = {"delay_hours": (pair.own.delay_ms or 0) / HOUR_MS}
    for name, outcome in (("own", pair.own), ("observed", pair.observed)):
        told[f"{name}_lost"] = outcome.lost
        told[f"{name}_median_hours"] = round(outcome.median_hours, 3)
        told[f"{name}_longest_hours"] = round(outcome.longest_hours, 3)
    return told


def _meaning(pair: Pair) -> tuple[str, ...]:
    own, observed = pair.own, pair.observed
    outage = (
        f"A delay of {_delay(pair)} is long enough for the longest flight; nobody guesses an "
        f"outage. The maximum goes on without {CUT_OFF} and loses {own.lost:,} rows without a "
        f"word. The minimum waits until {CUT_OFF} is back and loses {observed.lost:,}."
    )
    price = (
        f"The price is the wait: {observed.longest_hours:.0f} h at most in place of "
        f"{own.longest_hours:.0f} h, and {observed.median_hours:.1f} h in place of "
        f"{own.median_hours:.1f} h as a median."
    )
    guess = (
        "The delay is still a guess, for what is out of order within a segment. Writers that note "
        "time themselves need none: ./run demo."
    )
    return outage, price, guess


def _picture(pairs: Sequence[Pair], curve: Sequence[Pair]) -> Figure:
    last = pairs[-1]
    figure = headed(
        f"{last.observed.lost:,} flights lost, not {last.own.lost:,}",
        "Nobody notes, and an airport is cut off: Spark's maximum over partitions against the "
        "minimum of observed clocks",
    )
    axes = figure.add_axes((0.085, 0.125, 0.885, 0.67))
    plain(axes)
    axes.set_yscale("symlog", linthresh=LINEAR_TO, linscale=0.9)
    axes.set_yticks(LOSSES, [f"{loss:g} %" for loss in LOSSES])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-LINEAR_TO * 0.3, 100)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} h")
    _draw(axes, [pair.own for pair in pairs], [pair.own for pair in curve], OWN)
    _draw(axes, [pair.observed for pair in pairs], [pair.observed for pair in curve], NOTED)
    for name, colour, height in (("Spark's maximum", OWN, 0.93), ("observed minimum", NOTED, 0.86)):
        style: dict[str, Any] = {"color": colour, "fontsize": 14, "weight": "bold", "ha": "right"}
        axes.text(0.99, height, name, transform=axes.transAxes, **style)
    axes.set_xlabel("delay that is guessed; lines simulated, dots measured", color=GREY)
    axes.set_ylabel("flights lost", color=GREY)
    return figure


def _draw(axes: Axes, measured: Sequence[Outcome], curve: Sequence[Outcome], colour: str) -> None:
    axes.plot(*_points(curve), color=colour, linewidth=2.5, alpha=0.3)
    axes.plot(*_points(measured), "o", color=colour, markersize=10, markeredgecolor="white")
    for outcome, delay, lost in zip(measured, *_points(measured), strict=True):
        style: dict[str, Any] = {"color": colour, "textcoords": "offset points", "fontsize": 10.5}
        axes.annotate(f"{outcome.lost:,} lost", (delay, lost), xytext=(7, 8), **style)


def _points(outcomes: Sequence[Outcome]) -> tuple[list[float], list[float]]:
    delays = [(outcome.delay_ms or 0) / HOUR_MS for outcome in outcomes]
    return delays, [outcome.lost_percent for outcome in outcomes]
