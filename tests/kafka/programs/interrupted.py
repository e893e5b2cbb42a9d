"""Produce and note while a signal handler raises at any moment."""

import random
import signal
import sys
from contextlib import suppress

from writer_client import KafkaNotedProducer

NOON = 1_357_041_600_000


class Interrupted(BaseException):
    """Raised by the signal handler, as `KeyboardInterrupt` is."""


def interrupt(*_: object) -> None:
    raise Interrupted


def main(bootstrap: str, topic: str, url: str, times: str) -> None:
    """Print how many events are left at the end, and whether time reached the last note."""
    config = {"bootstrap.servers": bootstrap, "linger.ms": 1, "queue.buffering.max.messages": 500}
    chance = random.Random(7)
    now = NOON
    signal.signal(signal.SIGALRM, interrupt)
    with KafkaNotedProducer(config, topic, "berlin", controller=url) as producer:
        for _ in range(int(times)):
            with suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.005 * chance.random())
                while True:
                    producer.produce(value="x", event_time=now + chance.randrange(3000))
                    if chance.random() < 0.01:
                        producer.note_time(now := now + 1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        producer.note_time(now := now + 1)
        flushed_promise = producer.finish(60)
        sys.stdout.write(f"{len(producer)} {flushed_promise.lower == now}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
