"""Producers that do not note: Spark's watermark against an observer's.

Each airport has a partition, and one is cut off for a while, so its flights come later, all at
once. Spark's own watermark follows the newest departure of all partitions, the observer the least,
both less the same delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from confluent_kafka import Producer

from demo import kafka
from demo.data import HOUR_MS, Flight, Flights
from demo.findings import cuts_of
from demo.measurement import Outcome, Run, compute_noted_outcome, compute_own_outcome, find_batches
from demo.progress import describe_parts, divide_by_steps
from demo.query import POLLING_DELAY, add_own_watermarks, hourly, run_query, truth
from demo.replay import PATIENCE_S, STREAM, Replayed, create_stream, replay
from demo.report import cells, outcome_figures
from demo.schedule import Step
from demo.simulation import BEFORE_ALL_TIME, Windows
from demo.stage import Result, Stage, table
from noted_time import Unreachable
from noted_time.kafka import Topic
from noted_time.kafka.connecting import FATAL_ONLY
from writer_client import EventTimeNoter, KafkaTimes, WriterClient

NAME = "observers"
"""The name of the story's files."""

AIRPORTS = ("EWR", "JFK", "LGA")
"""The airport of each partition."""

CUT_OFF = "LGA"
MOST_CUT_OFF_MS = 48 * HOUR_MS
DELAY_HOURS = 11
"""Enough for the longest flight."""

ROWS_PER_LOOK = 300
"""The observer looks after so many rows, and a micro-batch of each query ends there.

So all rows are judged by the last look before them, and a simulation can say which are lost.
"""

TITLE = "Departures per hour, an airport is cut off; latency in hours of 2013"
HEADINGS = ("watermark", "lost", "lost %", "median", "longest")
MAXIMUM = "Spark's maximum"
MINIMUM = "observed minimum"


def outage_of(flights: Flights) -> tuple[int, int]:
    """Return the middle third of the replay, at most two days, in Unix ms."""
    first = flights.landed[0].landing
    last = flights.landed[-1].landing
    third = (last - first) // 3
    return first + third, first + third + min(third, MOST_CUT_OFF_MS)


def add_outage(flights: Flights) -> Flights:
    """Return the flights with the time when they become known as their landing."""
    begin, end = outage_of(flights)
    known_flights = []
    for flight in flights.landed:
        if _is_hidden(flight, begin, end):
            known_flights.append(flight._replace(landing=end))
        else:
            known_flights.append(flight)
    return replace(flights, landed=tuple(sorted(known_flights)))


def _is_hidden(flight: Flight, begin: int, end: int) -> bool:
    """Return whether a flight lands where the airport is cut off, from `begin` to `end`."""
    return flight.origin == CUT_OFF and begin <= flight.landing < end


def opening(flights: Flights) -> list[str]:
    begin, end = outage_of(flights)
    hidden_count = sum(_is_hidden(flight, begin, end) for flight in flights.landed)
    unnoted_line = (
        "Each airport has a partition of a Kafka topic, and a plain producer writes its "
        f"flights as they land, and notes nothing. {CUT_OFF} is cut off for "
        f"{(end - begin) / HOUR_MS:.0f} hours; its {hidden_count:,} flights of that time "
        "are written when it is back."
    )
    observed_line = (
        f"After each {ROWS_PER_LOOK} flights, an observer asks the broker for the newest timestamp "
        f"of each partition, and notes the least of the three, less a delay of {DELAY_HOURS} h. "
        "Spark's own watermark takes the greatest of the three, at the same delay."
    )
    return [unnoted_line, observed_line]


def play(stage: Stage) -> Result:
    """Write, observe and count at each look, and compare the watermarks."""
    flights = add_outage(stage.flights)
    own_run, observed_run, replay_result = _count(stage, flights)
    true_counts = truth(kafka.read(stage.spark.read, stage.bootstrap))
    maximum = compute_own_outcome(own_run, DELAY_HOURS, true_counts, list(_list_by_look(flights)))
    cuts = cuts_of(stage.url, find_batches(observed_run, 0))
    minimum = compute_noted_outcome(observed_run, true_counts, replay_result, cuts)
    minimum = replace(minimum, delay_ms=DELAY_HOURS * HOUR_MS)
    outcomes = {MAXIMUM: maximum, MINIMUM: minimum}
    predicted_outcomes = {MAXIMUM: simulate(flights, max), MINIMUM: simulate(flights, min)}
    rows = [(name, *cells(outcome)) for name, outcome in outcomes.items()]
    broken = []
    for name, outcome in outcomes.items():
        if outcome != predicted_outcomes[name]:
            broken.append(f"{name}: Spark measured something else than the simulation predicted.")
    return Result(
        table=table(TITLE, HEADINGS, rows, ours=MINIMUM),
        meaning=_meaning(maximum, minimum),
        figures={name: outcome_figures([outcome]) for name, outcome in outcomes.items()},
        broken=tuple(broken),
    )


def looks(flights: Flights) -> Iterator[Step]:
    """Yield a step for each look, with the flights since the one before, by airport."""
    for first in range(0, len(flights.landed), ROWS_PER_LOOK):
        known_flights = flights.landed[first : first + ROWS_PER_LOOK]
        flights_by_airport = {}
        for airport in AIRPORTS:
            airport_flights = [flight for flight in known_flights if flight.origin == airport]
            flights_by_airport[airport] = airport_flights
        yield Step(known_flights[-1].landing, flights_by_airport, {})


def simulate(flights: Flights, choose: Callable[[Iterable[int]], int]) -> Outcome:
    """Return the outcome of `max` or `min` over the airports' newest departures."""
    windows = Windows()
    watermark = BEFORE_ALL_TIME
    newest = dict.fromkeys(AIRPORTS, BEFORE_ALL_TIME)
    for look in looks(flights):
        for airport, airport_flights in look.landed.items():
            for flight in airport_flights:
                windows.land(flight, watermark)
                newest[airport] = max(newest[airport], flight.departure)
        watermark = choose(newest.values()) - DELAY_HOURS * HOUR_MS
        windows.close(watermark, look.clock)
    return windows.outcome(flights, DELAY_HOURS * HOUR_MS)


def _list_by_look(flights: Flights) -> Iterator[Flight]:
    """Yield the flights with the clock of their look."""
    for look in looks(flights):
        for flight in chain(*look.landed.values()):
            yield flight._replace(landing=look.clock)


def _count(stage: Stage, flights: Flights) -> tuple[Run, Run, Replayed]:
    """Let the airports write, the observer look and the queries count, in turn.

    Returns the run under Spark's own watermark, and the observed one.
    """
    assert stage.broker is not None  # noqa: S101 - the command requires --kafka
    stage.spark.conf.set(POLLING_DELAY, "200ms")  # two idle queries would keep two cores busy
    create_stream(stage.url, expected=["observer"])
    stage.broker.create(STREAM, len(AIRPORTS), kafka.KEPT_FOR_EVER)
    topic = Topic(stage.broker.config, STREAM)
    producer = Producer({**stage.broker.config, "log_level": FATAL_ONLY})
    arriving = stage.spark.readStream.option("startingOffsets", "earliest")
    guessed_rows = add_own_watermarks(kafka.read(arriving, stage.bootstrap), [DELAY_HOURS])
    checkpoint = stage.directory / "noted"
    steps = list(looks(flights))
    noted_rows = kafka.read_noted(stage.spark, stage.bootstrap, stage.url, str(checkpoint))
    own_run = Run()
    observed_run = Run()
    with (
        _observing(stage) as observer,
        run_query(own_run, hourly(guessed_rows), stage.directory / "own") as own_query,
        run_query(observed_run, hourly(noted_rows), checkpoint) as noted_query,
    ):

        def take(look: Step) -> Mapping[int, int]:
            for partition, airport in enumerate(AIRPORTS):
                for flight in look.landed[airport]:
                    value = kafka.record(flight)
                    time = flight.departure
                    producer.produce(STREAM, value, partition=partition, timestamp=time)
            undelivered_count = producer.flush(PATIENCE_S)
            if undelivered_count:
                raise Unreachable(f"Kafka took too long for {undelivered_count:,} flights")
            observer.look()
            observer.client.flush(PATIENCE_S)
            own_query.processAllAvailable()
            noted_query.processAllAvailable()
            return topic.look().ends

        description = "Airports write, Spark counts"
        report_step = stage.bar(description, len(steps), describe_parts(divide_by_steps(steps)))
        return own_run, observed_run, replay(steps, take, on_step=report_step)


@contextmanager
def _observing(at: Stage) -> Iterator[EventTimeNoter]:
    """Yield an observer by timestamps, which finishes at the end.

    It waits for quiet partitions, as at night.
    """
    times = KafkaTimes({"bootstrap.servers": at.bootstrap}, STREAM)
    with WriterClient(STREAM, "observer", controller=at.url) as client:
        observer = EventTimeNoter(client, times, delay_ms=DELAY_HOURS * HOUR_MS, idle_timeout_ms=0)
        client.flush(PATIENCE_S)
        yield observer
        client.join(times().ends)  # no note has the ends of rows that left the time as it was
        client.finish(timeout=PATIENCE_S)


def _meaning(own_outcome: Outcome, observed_outcome: Outcome) -> tuple[str, ...]:
    return (
        (
            f"A delay of {DELAY_HOURS} h is enough for the longest flight, but not for an outage. "
            f"The maximum does not wait for {CUT_OFF}, and lost {own_outcome.lost:,} rows. "
            f"The minimum waits until {CUT_OFF} is back, and lost {observed_outcome.lost:,}."
        ),
        (
            f"That costs time: {observed_outcome.longest_hours:.0f} h at most, "
            f"not {own_outcome.longest_hours:.0f}, and {observed_outcome.median_hours:.1f} h "
            "in the median, "
            f"not {own_outcome.median_hours:.1f}."
        ),
        (
            "The delay is still a guess, of how far each partition is out of order in itself. "
            "Producers that note need none: ./run demo --kafka."
        ),
    )
