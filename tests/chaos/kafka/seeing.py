"""A consumer that keeps when each record came into its sight, to judge observers by ingestion."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

Seen = Mapping[tuple[int, int], int]
"""When a record was in sight at the latest, in ms, by partition and offset."""


class Seeing:
    """Consumes the committed records of a topic until it is stopped."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._stopping = threading.Event()
        self._topic = topic
        self._config: dict[str, Any] = {
            **config,
            "group.id": "seeing",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 2,
        }

    def stop(self) -> None:
        """Have it stop soon."""
        self._stopping.set()

    def run(self) -> Seen:
        """Consume, and return all records; after an error of the group all comes once more."""
        seen: dict[tuple[int, int], int] = {}
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic])
        while not self._stopping.is_set():
            found = consumer.consume(1000, 0.1)
            now = time.time_ns() // 1_000_000
            for message in found:
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    seen.setdefault((partition, offset), now)
        consumer.close()
        return seen
