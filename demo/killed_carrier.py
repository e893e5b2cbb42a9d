"""A carrier that is killed in a transaction."""

from __future__ import annotations

import json
import signal
import sys

from writer_client import KafkaNotedProducer


def fly(bootstrap: str, topic: str, controller_url: str, carrier: str, rows: str) -> None:
    """Write rows, (departure, record) in JSON, and wait in the transaction for the kill."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": carrier}
    with (
        KafkaNotedProducer(config, topic, carrier, controller=controller_url) as producer,
        producer.transaction(),
    ):
        for departure, record in json.loads(rows):
            producer.produce(value=record, event_time=departure)
        producer.flush()
        sys.stdout.write("\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    fly(*sys.argv[1:])
