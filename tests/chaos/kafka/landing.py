"""Producers that do not note, in a separate process, to a topic whose broker stamps the records.

One writes as it likes; two write in transactions that overlap, and abort some. A supervisor starts
the process again when anything fails, until the file `end` is there.
"""

import json
import random
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.chaos.kafka.writing import ABORTS, TRANSACTION_MS

RECORDS = range(1, 20)
PAUSE_S = (0.0, 0.2)
END = 0.3
"""How often a transaction ends after a round of records."""


class Landing:
    """The three producers, and which of their transactions are open."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic, self._chance = topic, random.Random()
        config = {
            "bootstrap.servers": bootstrap,
            "topic.metadata.refresh.interval.ms": 1000,
            "linger.ms": 0,
        }
        self._plain = Producer(config)
        limit = {"transaction.timeout.ms": TRANSACTION_MS}
        self._transactional = [
            Producer({**config, **limit, "transactional.id": f"landing-{n}"}) for n in range(2)
        ]
        for each in self._transactional:
            each.init_transactions(60)
        self._open: set[Producer] = set()

    def round(self) -> None:
        """Write some records by one of the producers."""
        producer = self._chance.choice([self._plain, *self._transactional])
        if producer is not self._plain and producer not in self._open:
            producer.begin_transaction()
            self._open.add(producer)
        for _ in range(self._chance.choice(RECORDS)):
            producer.produce(self._topic, b"")
        producer.flush(60)
        if producer in self._open and self._chance.random() < END:
            self.end(producer)
        time.sleep(self._chance.uniform(*PAUSE_S))

    def end(self, producer: Producer) -> None:
        """Commit a transaction, or abort it now and then."""
        self._open.remove(producer)
        if self._chance.random() < ABORTS:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)

    def close(self) -> None:
        """End the open transactions."""
        for producer in [*self._open]:
            self.end(producer)


def land(bootstrap: str, topic: str, end: str) -> None:
    """Write until the file `end` is there."""
    landing = Landing(bootstrap, topic)
    while not Path(end).exists():
        landing.round()
    landing.close()


if __name__ == "__main__":
    land(**json.loads(sys.argv[1]))
