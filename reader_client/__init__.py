"""The readers' side: follow the marks of a stream, and turn positions into time windows.

`KafkaNotedConsumer` imports confluent-kafka when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import imported
from reader_client.async_client import AsyncReaderClient
from reader_client.client import ReaderClient
from reader_client.merging import merged

if TYPE_CHECKING:
    from reader_client.kafka_consumer import KafkaNotedConsumer

__all__ = ["AsyncReaderClient", "KafkaNotedConsumer", "ReaderClient", "merged"]

OPTIONAL = {"KafkaNotedConsumer": ("reader_client.kafka_consumer", "kafka")}
"""The names that need more than the base install: their modules, and the extras."""


def __getattr__(name: str) -> object:
    return imported(__name__, OPTIONAL, name)
