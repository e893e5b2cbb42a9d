"""Produce and note until SIGTERM, whose handler calls `sys.exit`, as in services."""

import signal
import sys

from writer_client import KafkaNotedProducer

NOON = 1_357_041_600_000


def end(*_: object) -> None:
    sys.exit(0)


def main(bootstrap: str, topic: str, url: str, number: str) -> None:
    """Print a line after the start, and finish the writer at the end."""
    signal.signal(signal.SIGTERM, end)
    with KafkaNotedProducer(
        {"bootstrap.servers": bootstrap}, topic, number, controller=url
    ) as producer:
        now = NOON + 10_000_000 * int(number)
        try:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
            while True:
                producer.produce(value="x", event_time=now)
                now += 1
                if now % 100 == 0:
                    producer.note_time(now)
        finally:
            producer.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
