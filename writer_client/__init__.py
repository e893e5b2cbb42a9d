"""The writers' side: note time, and append to the file log.

Each name is imported when it is first used. `WriterClient` needs neither Parquet nor Kafka;
`SegmentLogWriter`, `LogEnds` and `LogTimes` need pyarrow, and `SharedObserver`, `TopicEnds` and all
that begins with `Kafka` confluent-kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import imported

if TYPE_CHECKING:
    from writer_client.async_client import AsyncWriterClient
    from writer_client.batches import Batch
    from writer_client.client import WriterClient
    from writer_client.delivery import DeliveryTracker
    from writer_client.kafka_broker_times import KafkaBrokerTimes
    from writer_client.kafka_ends import KafkaEnds, KafkaTimes, TopicEnds
    from writer_client.kafka_fields import KafkaFields
    from writer_client.kafka_producer import KafkaNotedProducer
    from writer_client.kafka_resolved import KafkaResolved
    from writer_client.kafka_sharing import SharedObserver
    from writer_client.log_ends import LogEnds, LogTimes
    from writer_client.observing import EventTimeNoter, IngestionNoter
    from writer_client.outcome import Exclusion, Flushed
    from writer_client.partition_writers import PartitionWriters
    from writer_client.segment_log import SegmentLogWriter

__all__ = [
    "AsyncWriterClient",
    "Batch",
    "DeliveryTracker",
    "EventTimeNoter",
    "Exclusion",
    "Flushed",
    "IngestionNoter",
    "KafkaBrokerTimes",
    "KafkaEnds",
    "KafkaFields",
    "KafkaNotedProducer",
    "KafkaResolved",
    "KafkaTimes",
    "LogEnds",
    "LogTimes",
    "PartitionWriters",
    "SegmentLogWriter",
    "SharedObserver",
    "TopicEnds",
    "WriterClient",
]

NAMES = {
    "AsyncWriterClient": ("writer_client.async_client", ""),
    "Batch": ("writer_client.batches", ""),
    "DeliveryTracker": ("writer_client.delivery", ""),
    "EventTimeNoter": ("writer_client.observing", ""),
    "Exclusion": ("writer_client.outcome", ""),
    "Flushed": ("writer_client.outcome", ""),
    "IngestionNoter": ("writer_client.observing", ""),
    "KafkaBrokerTimes": ("writer_client.kafka_broker_times", "kafka"),
    "KafkaEnds": ("writer_client.kafka_ends", "kafka"),
    "KafkaFields": ("writer_client.kafka_fields", "kafka"),
    "KafkaNotedProducer": ("writer_client.kafka_producer", "kafka"),
    "KafkaResolved": ("writer_client.kafka_resolved", "kafka"),
    "KafkaTimes": ("writer_client.kafka_ends", "kafka"),
    "LogEnds": ("writer_client.log_ends", "files"),
    "LogTimes": ("writer_client.log_ends", "files"),
    "PartitionWriters": ("writer_client.partition_writers", ""),
    "SegmentLogWriter": ("writer_client.segment_log", "files"),
    "SharedObserver": ("writer_client.kafka_sharing", "kafka"),
    "TopicEnds": ("writer_client.kafka_ends", "kafka"),
    "WriterClient": ("writer_client.client", ""),
}
"""The module of each name, and the extra that it needs beyond the base install."""


def __getattr__(name: str) -> object:
    return imported(__name__, NAMES, name)
