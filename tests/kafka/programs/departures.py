"""Produces and notes until it is killed; what a former run noted is where it continues."""

import random
import sys

from writer_client import KafkaNotedProducer

NOON = 1_357_041_600_000


def main(bootstrap: str, topic: str, url: str, transactional_id: str = "") -> None:
    """Write a second of event time in each round, out of order, without waiting for delivery."""
    config = {"bootstrap.servers": bootstrap, "linger.ms": 20}
    if transactional_id:
        config["transactional.id"] = transactional_id
    chance = random.Random()
    with KafkaNotedProducer(config, topic, url, "berlin") as producer:
        now = producer.time or NOON

        def write() -> None:
            for _ in range(100):
                producer.produce(value="x", event_time=now + chance.randrange(3000))
            producer.note_time(now + 1000)

        while True:
            if transactional_id:
                with producer.transaction():
                    write()
            else:
                write()
            now += 1000
            if now % 10_000 == 0:
                producer.flush(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
