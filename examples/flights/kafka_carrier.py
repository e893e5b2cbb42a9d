"""One carrier as a process: each line it reads is a stop of the replay, written in a transaction.

A line has the flights that landed, each as its departure (Unix ms) and its record, and the time to
note. The answer is a line, once that is committed and noted. A line without a time is the stop that
the carrier does not survive: its transaction stays open.
"""

from __future__ import annotations

import json
import signal
import sys

from writer_client import KafkaNotedProducer

PATIENCE_S = 60.0
LOOKS_AT_THE_TOPIC_MS = 1000


def fly(bootstrap: str, topic: str, controller_url: str, carrier: str) -> None:
    """Write what the lines say, and finish at their end."""
    config = {
        "bootstrap.servers": bootstrap,
        "transactional.id": carrier,
        "topic.metadata.refresh.interval.ms": LOOKS_AT_THE_TOPIC_MS,
    }
    with KafkaNotedProducer(config, topic, controller_url, carrier) as producer:
        answer()
        for line in sys.stdin:
            flights, time = json.loads(line)
            with producer.transaction():
                for departure, record in flights:
                    producer.produce(json.dumps(record), event_time=departure)
                if time is None:
                    producer.flush(PATIENCE_S)
                    answer()
                    signal.pause()  # until it is killed
                producer.note_time(time)
            producer.flush(PATIENCE_S)
            answer()
        producer.finish()


def answer() -> None:
    """Say that it is done."""
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    fly(*sys.argv[1:])
