"""One carrier as a process: each line it reads is a stop of the replay, which it answers by a line.

A line has, between tabs, the partition, the time to note, and the flights that landed, each as its
departure (Unix ms) and its record. A carrier that notes writes them in a transaction, and answers
once that is committed and noted. A line without a time is the stop that it does not survive: its
transaction stays open. A carrier that does not note passes the flights to a plain producer.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer

from writer_client import KafkaNotedProducer

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60.0


class Stop(NamedTuple):
    """What to write to one partition, and the time to note then."""

    partition: int
    time: int | None
    flights: list[tuple[int, str]]


def line_of(stop: Stop) -> str:
    """Return the line of a stop.

    >>> stop_of(line_of(Stop(2, None, [(7, "{}")])))
    Stop(partition=2, time=None, flights=[(7, '{}')])
    """
    flights = [str(each) for flight in stop.flights for each in flight]
    return "\t".join([str(stop.partition), "" if stop.time is None else str(stop.time), *flights])


def stop_of(line: str) -> Stop:
    """Return the stop of a line."""
    partition, time, *flights = line.removesuffix("\n").split("\t")
    departures = map(int, flights[::2])
    rows = list(zip(departures, flights[1::2], strict=True))
    return Stop(int(partition), int(time) if time else None, rows)


def fly_noted(bootstrap: str, topic: str, carrier: str, controller_url: str) -> None:
    """Write what the lines say, note, and finish at their end."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": carrier}
    with KafkaNotedProducer(config, topic, controller_url, carrier) as producer:
        for stop in _stops(producer.kafka, topic):
            with producer.transaction():
                for departure, record in stop.flights:
                    producer.produce(value=record, event_time=departure, partition=stop.partition)
                if stop.time is None:
                    producer.flush(PATIENCE_S)
                    answer()
                    signal.pause()  # until it is killed
                else:
                    producer.note_time(stop.time)
            producer.flush(PATIENCE_S)
        producer.finish()


def fly_unnoted(bootstrap: str, topic: str) -> None:
    """Write what the lines say, with Kafka's client and nothing else."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for stop in _stops(producer, topic):
        for departure, record in stop.flights:
            producer.produce(topic, record, partition=stop.partition, timestamp=departure)
        producer.flush(PATIENCE_S)


def _stops(producer: Producer, topic: str) -> Iterator[Stop]:
    """Yield what the lines say; each answer follows when the next is asked for."""
    answer()
    known: set[int] = set()
    for line in sys.stdin:
        stop = stop_of(line)
        while stop.partition not in known:  # a client refuses a partition that it has not seen
            known.update(producer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        yield stop
        answer()


def answer() -> None:
    """Say that it is done."""
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    (fly_noted if len(sys.argv) > 3 else fly_unnoted)(*sys.argv[1:])  # noqa: PLR2004
