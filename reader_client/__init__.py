"""The client library for readers: it follows marks, and turns positions into time windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from noted_time.kafka.groups import committed_position as committed_position
    from noted_time.progress import ReadOffsets as ReadOffsets
    from noted_time.verdict import Completeness as Completeness
    from reader_client.async_client import AsyncReaderClient as AsyncReaderClient
    from reader_client.client import ReaderClient as ReaderClient
    from reader_client.kafka.consumer import KafkaNotedConsumer as KafkaNotedConsumer
    from reader_client.kafka.relay import KafkaRelay as KafkaRelay
    from reader_client.marks.merging import merged as merged
    from reader_client.protocol.datasets import complete_to as complete_to
    from reader_client.protocol.hops import why as why

LAZY_IMPORTS = {
    "AsyncReaderClient": ("reader_client.async_client", ""),
    "Completeness": ("noted_time.verdict", ""),
    "KafkaNotedConsumer": ("reader_client.kafka.consumer", "kafka"),
    "KafkaRelay": ("reader_client.kafka.relay", "kafka"),
    "ReadOffsets": ("noted_time.progress", ""),
    "ReaderClient": ("reader_client.client", ""),
    "committed_position": ("noted_time.kafka.groups", "kafka"),
    "complete_to": ("reader_client.protocol.datasets", ""),
    "merged": ("reader_client.marks.merging", ""),
    "why": ("reader_client.protocol.hops", ""),
}

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
