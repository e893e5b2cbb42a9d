"""Producers that do not note: the maximum over partitions, and the minimum that observers note.

Each airport has a partition of a topic, and one of them is cut off for a while: its flights come
afterwards, all at once. Spark's own watermark takes the greatest of the newest departures, the
observers the least, both less the same delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from demo import kafka
from demo.data import HOUR_MS
from demo.findings import cuts_of
from demo.measurement import Counted, came_in, noted_outcome, own_outcome
from demo.picture import NOTED, OWN, axes_of, draw_curve, draw_dot, headed
from demo.query import Run, hourly, running, truth, with_own_watermark
from demo.replay import PATIENCE_S, STREAM, create_stream, replay
from demo.report import outcome_figures
from demo.schedule import Step
from demo.simulation import BEFORE_ALL_TIME, Windows
from demo.stage import Result, table
from writer_client import EventTimeNoter, KafkaTimes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from demo.data import Flight, Flights
    from demo.measurement import Outcome
    from demo.query import Running
    from demo.replay import Replayed
    from demo.stage import Stage

NAME = "observers"
"""The name of the story's files."""

AIRPORTS = ("EWR", "JFK", "LGA")
"""The airport of each partition."""

CUT_OFF = "LGA"
MOST_CUT_OFF_MS = 48 * HOUR_MS
DELAY_HOURS = (4, 11)
CURVE_MS = range(HOUR_MS, 14 * HOUR_MS + 1, HOUR_MS // 4)

ROWS_PER_LOOK = 300
"""The observers look after so many rows, and a micro-batch of each query ends there.

So all rows are judged by the last look before them, and a simulation can say which are lost.
"""

Choice = Callable[[Iterable[int]], int]

POLLING_DELAY = "spark.sql.streaming.pollingDelay"

TITLE = "Departures per hour, an airport is cut off; latency in replay time"
HEADINGS = ("watermark", "delay", "lost", "lost %", "median", "longest")
MAXIMUM, MINIMUM = "Spark's maximum", "observed minimum"


@dataclass(frozen=True, slots=True)
class Method:
    """A way to get a watermark from the partitions' newest departures, and what it gave."""

    name: str
    choose: Choice
    outcomes: list[Outcome]


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
    return replace(flights, landed=tuple(sorted(map(outage_of(flights).known, flights.landed))))


def opening(flights: Flights) -> list[str]:
    """Return sentences that announce the story."""
    outage, delays = outage_of(flights), " and ".join(map(str, DELAY_HOURS))
    hidden = sum(outage.known(flight) != flight for flight in flights.landed)
    unnoted = (
        "Each airport has a partition of a Kafka topic, to which a plain producer writes its "
        f"flights as they land, and notes nothing. {CUT_OFF} is cut off for "
        f"{(outage.end - outage.begin) / HOUR_MS:.0f} hours; its {hidden:,} flights of that time "
        "are written when it is back."
    )
    observed = (
        f"After each {ROWS_PER_LOOK} flights, observers ask the broker for the newest timestamp of "
        f"each partition, and note the least of the three, less a delay of {delays} h. Spark's own "
        "watermark takes the greatest of the three, at the same delays."
    )
    return [unnoted, observed]


def play(at: Stage) -> Result:
    """Write, observe and count, look by look, and compare the two watermarks."""
    return at.beside.submit(_play, at).result()


def looks(flights: Flights) -> Iterator[Step]:
    """Yield a step for each look; its flights, by airport, became known since the one before."""
    for first in range(0, len(flights.landed), ROWS_PER_LOOK):
        known = flights.landed[first : first + ROWS_PER_LOOK]
        landed = {each: [flight for flight in known if flight.origin == each] for each in AIRPORTS}
        yield Step(known[-1].landing, landed, {})


def simulated(flights: Flights, delay_ms: int, choose: Choice) -> Outcome:
    """Return what `max` or `min` over the airports' newest departures gives, without Spark."""
    windows, watermark = Windows(), BEFORE_ALL_TIME
    newest = dict.fromkeys(AIRPORTS, BEFORE_ALL_TIME)
    for look in looks(flights):
        for airport, known in look.landed.items():
            for flight in known:
                windows.land(flight, watermark)
                newest[airport] = max(newest[airport], flight.departure)
        watermark = choose(newest.values()) - delay_ms
        windows.close(watermark, look.clock)
    return windows.outcome(flights, delay_ms)


def _play(at: Stage) -> Result:
    flights = with_outage(at.flights)
    own, observed, replayed = _count(at, flights)
    counted = truth(kafka.written(at))
    landed = list(_by_look(flights))
    maximum = Method(MAXIMUM, max, [own_outcome(own, h, counted, landed) for h in DELAY_HOURS])
    minimum = Method(MINIMUM, min, [])
    for hours, run in observed.items():
        cuts = cuts_of(at.url, came_in(run, 0), _domain(hours))
        outcome = noted_outcome(Counted(run, counted, replayed), cuts)
        minimum.outcomes.append(replace(outcome, delay_ms=hours * HOUR_MS))
    both = maximum, minimum
    return Result(
        table=table(TITLE, HEADINGS, chain(*map(_rows, both)), ours=MINIMUM),
        meaning=_meaning(maximum.outcomes[-1], minimum.outcomes[-1]),
        figures={each.name: outcome_figures(each.outcomes) for each in both},
        picture=_picture(flights, both),
        broken=tuple(_broken(flights, both)),
    )


def _by_look(flights: Flights) -> Iterator[Flight]:
    """Yield the flights with the clock of their look, which a micro-batch may split."""
    for look in looks(flights):
        for flight in chain(*look.landed.values()):
            yield flight._replace(landing=look.clock)


def _count(at: Stage, flights: Flights) -> tuple[Run, Mapping[int, Run], Replayed]:
    """Let the airports write, the observers look and the queries count, in turn.

    Returns the run under Spark's own watermark, and for each delay in hours the observed one.
    """
    at.spark.conf.set(POLLING_DELAY, "200ms")  # or three idle queries would keep two cores busy
    own, observed = Run(), {hours: Run() for hours in DELAY_HOURS}
    create_stream(at.url, STREAM, domains=[_domain(hours) for hours in DELAY_HOURS])
    topic, config = (
        kafka.FlightTopic(at.bootstrap, len(AIRPORTS)),
        {"bootstrap.servers": at.bootstrap},
    )
    producer, steps = Producer(config), list(looks(flights))
    with ExitStack() as stack:
        observers = [stack.enter_context(_observing(at, hours)) for hours in DELAY_HOURS]
        queries = [stack.enter_context(each) for each in _queries(at, own, observed)]

        def take(look: Step) -> Mapping[int, int]:
            for partition, airport in enumerate(AIRPORTS):
                for flight in look.landed[airport]:
                    kafka.produce(producer, flight, partition)
            producer.flush(PATIENCE_S)
            for observer in observers:
                observer.look()
                observer.client.flush(PATIENCE_S)
            for query in queries:
                query.processAllAvailable()
            return topic.ends()

        done = at.bar("Airports write, observers look, Spark counts", len(steps))
        return own, observed, replay(steps, take, on_step=done)


def _observing(at: Stage, hours: int) -> AbstractContextManager[EventTimeNoter]:
    times = KafkaTimes({"bootstrap.servers": at.bootstrap}, STREAM)
    return kafka.observing(at, f"observer-{hours}h", times, hours * HOUR_MS, _domain(hours))


def _queries(at: Stage, own: Run, observed: Mapping[int, Run]) -> Iterator[Running]:
    flights = with_own_watermark(kafka.arriving(at), DELAY_HOURS)
    yield running(own, hourly(flights), at.directory / "own")
    for hours, run in observed.items():
        checkpoint = at.directory / _domain(hours)
        flights = kafka.with_noted_time(at, checkpoint, _domain(hours))
        yield running(run, hourly(flights), checkpoint)


def _domain(delay_hours: int) -> str:
    return f"{delay_hours}-hours-back"


def _rows(method: Method) -> Iterator[tuple[str, ...]]:
    for each in method.outcomes:
        lost = f"{each.lost:,}", f"{each.lost_percent:.1f}"
        hours = each.median_hours, each.longest_hours
        yield method.name, _delay(each), *lost, *(f"{each:.1f} h" for each in hours)


def _delay(outcome: Outcome) -> str:
    return f"{(outcome.delay_ms or 0) / HOUR_MS:g} h"


def _broken(flights: Flights, both: Iterable[Method]) -> Iterator[str]:
    for method in both:
        for each in method.outcomes:
            if each != simulated(flights, each.delay_ms or 0, method.choose):
                yield (
                    f"{method.name}, {_delay(each)}: Spark measured something else than the "
                    "simulation predicted."
                )


def _meaning(own: Outcome, observed: Outcome) -> tuple[str, ...]:
    outage = (
        f"A delay of {_delay(own)} is enough for the longest flight, but not for an outage. The "
        f"maximum does not wait for {CUT_OFF}, and lost {own.lost:,} rows. The minimum waits until "
        f"{CUT_OFF} is back, and lost {observed.lost:,}."
    )
    price = (
        f"That costs time: {observed.longest_hours:.0f} h at most, not {own.longest_hours:.0f}, "
        f"and {observed.median_hours:.1f} h in the median, not {own.median_hours:.1f}."
    )
    guess = (
        "The delay is still a guess, of how far each partition is out of order in itself. "
        "Producers that note need none: ./run demo --kafka."
    )
    return outage, price, guess


def _picture(flights: Flights, both: Sequence[Method]) -> Figure:
    lost = [method.outcomes[-1].lost for method in both]
    figure = headed(
        f"{lost[1]:,} flights lost, not {lost[0]:,}",
        "No producer notes, and an airport is cut off: Spark's maximum over a topic's partitions, "
        "and the observed minimum",
    )
    curves = [[simulated(flights, ms, each.choose) for ms in CURVE_MS] for each in both]
    axes = axes_of(figure, [*chain(*curves), *chain(*(each.outcomes for each in both))])
    for method, curve, colour, place in zip(
        both, curves, (OWN, NOTED), ((0.03, 0.4), (0.03, 0.24)), strict=True
    ):
        draw_curve(axes, curve, (method.name, "line simulated, dots measured"), colour, place)
        for outcome in method.outcomes:
            draw_dot(axes, outcome, colour)
    return figure
