"""The client library for writers: it notes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from noted_time.observing import Seen as Seen
    from noted_time.values import Exclusion as Exclusion
    from writer_client.async_client import AsyncWriterClient as AsyncWriterClient
    from writer_client.client import WriterClient as WriterClient
    from writer_client.kafka.background import ClockNotes as ClockNotes
    from writer_client.kafka.ends import KafkaEnds as KafkaEnds
    from writer_client.kafka.ends import KafkaTimes as KafkaTimes
    from writer_client.kafka.ends import TopicEnds as TopicEnds
    from writer_client.kafka.producer import KafkaNotedProducer as KafkaNotedProducer
    from writer_client.observer import EventTimeNoter as EventTimeNoter
    from writer_client.observer import IngestionNoter as IngestionNoter
    from writer_client.sending.delivery import DeliveryTracker as DeliveryTracker
    from writer_client.sending.posting import Flushed as Flushed
    from writer_client.sending.posting import Pace as Pace

LAZY_IMPORTS = {
    "AsyncWriterClient": ("writer_client.async_client", ""),
    "ClockNotes": ("writer_client.kafka.background", "kafka"),
    "DeliveryTracker": ("writer_client.sending.delivery", ""),
    "EventTimeNoter": ("writer_client.observer", ""),
    "Exclusion": ("noted_time.values", ""),
    "Flushed": ("writer_client.sending.posting", ""),
    "IngestionNoter": ("writer_client.observer", ""),
    "KafkaEnds": ("writer_client.kafka.ends", "kafka"),
    "KafkaNotedProducer": ("writer_client.kafka.producer", "kafka"),
    "KafkaTimes": ("writer_client.kafka.ends", "kafka"),
    "Pace": ("writer_client.sending.posting", ""),
    "Seen": ("noted_time.observing", ""),
    "TopicEnds": ("writer_client.kafka.ends", "kafka"),
    "WriterClient": ("writer_client.client", ""),
}  # name → module, extra

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
