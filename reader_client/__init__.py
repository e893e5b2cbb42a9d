"""The readers' side: follow the marks of a stream, and turn positions into time windows.

Each name is imported when it is first used; the two of Kafka need confluent-kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import imported

if TYPE_CHECKING:
    from reader_client.async_client import AsyncReaderClient
    from reader_client.client import ReaderClient
    from reader_client.kafka_consumer import KafkaNotedConsumer
    from reader_client.kafka_relay import KafkaRelay
    from reader_client.merging import merged

__all__ = ["AsyncReaderClient", "KafkaNotedConsumer", "KafkaRelay", "ReaderClient", "merged"]

NAMES = {
    "AsyncReaderClient": ("reader_client.async_client", ""),
    "KafkaNotedConsumer": ("reader_client.kafka_consumer", "kafka"),
    "KafkaRelay": ("reader_client.kafka_relay", "kafka"),
    "ReaderClient": ("reader_client.client", ""),
    "merged": ("reader_client.merging", ""),
}
"""The module of each name, and the extra that it needs beyond the base install."""


def __getattr__(name: str) -> object:
    return imported(__name__, NAMES, name)
