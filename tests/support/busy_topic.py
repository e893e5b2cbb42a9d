"""A topic with overlapping transactions, and observers of it."""

import random
from collections.abc import Callable

from confluent_kafka import Producer

from tests.kafka.conftest import Flights
from tools.trials.waiting import PATIENCE_S, wait_until
from writer_client import EventTimeNoter, Seen, WriterClient

BUSY_TIME = 2_000_000_000_000
"""The time of the first record, later than all timestamps that the broker gives to markers."""

DELAY = 5_000

BUSY_TOPIC = {"message.timestamp.after.max.ms": BUSY_TIME}


class Busy:
    """Four producers of a topic; three use overlapping transactions."""

    def __init__(self, flights: Flights, seed: int) -> None:
        self._flights = flights
        self._chance = random.Random(seed)
        config = {**flights.broker.config, "linger.ms": 0, "log_level": 2}
        self._producers = [Producer(config)]
        for number in range(1, 4):
            producer = Producer({**config, "transactional.id": f"{flights.topic}-{number}"})
            producer.init_transactions(60)
            self._producers.append(producer)
        self._open = set[Producer]()
        self.partitions = 2
        self.time = BUSY_TIME

    def write(self) -> None:
        """Write records up to `DELAY` out of order, and begin or end transactions."""
        chance = self._chance
        for number, producer in enumerate(self._producers):
            if number and producer not in self._open:
                producer.begin_transaction()
                self._open.add(producer)
            for _ in range(chance.randrange(4)):
                self.time += chance.randrange(2000)
                time = self.time - chance.randrange(DELAY)
                partition = chance.randrange(self.partitions)
                value = f'{{"at": {time}}}'
                producer.produce(self._flights.topic, value, partition=partition, timestamp=time)
            assert producer.flush(60) == 0
        self.end(chance.choice([*self._open]))

    def grow(self) -> None:
        self.partitions += 1
        topic = self._flights.topic
        self._flights.broker.grow(topic, self.partitions)

        def all_know() -> bool:
            for producer in self._producers:
                topics = producer.list_topics(topic, timeout=PATIENCE_S).topics
                if len(topics[topic].partitions) != self.partitions:
                    return False
            return True

        wait_until(all_know)

    def end(self, producer: Producer) -> None:
        """Commit the transaction, or sometimes abort it."""
        self._open.remove(producer)
        if self._chance.random() < 0.3:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)

    def close(self) -> None:
        for producer in [*self._open]:
            self.end(producer)


def look_until(noter: EventTimeNoter, flights: Flights, lower: int) -> None:
    """Look until the stream has the lower; committed ends lag behind a commit."""

    def reached() -> bool:
        noter.look()
        noter.client.flush()
        return flights.lower == lower

    wait_until(reached)


def observe_busy_topic(
    flights: Flights, look_at: Callable[[Flights, WriterClient], Callable[[], Seen]]
) -> None:
    """Let three observers, one after the other, note the time of a topic with transactions.

    The topic gets another partition meanwhile, and ends without open transactions.
    """
    busy = Busy(flights, seed=7)
    for turn in range(3):
        with flights.observe("default") as client:
            times = look_at(flights, client)
            noter = EventTimeNoter(client, times, delay_ms=DELAY, idle_timeout_ms=0)
            for _ in range(10):
                busy.write()
                noter.look()
                client.flush()
            if turn == 0:
                busy.grow()
            elif turn == 2:
                busy.close()
                end = busy.time + 2 * DELAY
                flights.send(*((p, f'{{"at": {end}}}', end) for p in range(busy.partitions)))
                look_until(noter, flights, end - DELAY)
