"""An exact watermark for Spark Structured Streaming, from the marks that writers vouch for."""

from noted_time.extras import needs_extra

try:
    from spark_integration.adaptive import Mode, run_adaptively
    from spark_integration.complete_kafka import (
        KafkaOffsets,
        kafka_offsets,
        read_complete_kafka,
    )
    from spark_integration.complete_read import read_complete
    from spark_integration.jars import spark_jars
    from spark_integration.kafka_read import read_noted_kafka
    from spark_integration.late_rows import split_late
    from spark_integration.noted_log import read_noted_log
    from spark_integration.noted_log_sink import NotedLogSink
    from spark_integration.noted_watermark import with_noted_watermark
    from spark_integration.options import Align, Batches, CatchUp, Columns, Ingestion, ReadRange
    from spark_integration.position_listener import PositionListener
    from spark_integration.positions import KafkaTopic, NotedLog
except ModuleNotFoundError as error:
    raise needs_extra(__name__, "spark", error) from error

__all__ = [
    "Align",
    "Batches",
    "CatchUp",
    "Columns",
    "Ingestion",
    "KafkaOffsets",
    "KafkaTopic",
    "Mode",
    "NotedLog",
    "NotedLogSink",
    "PositionListener",
    "ReadRange",
    "kafka_offsets",
    "read_complete",
    "read_complete_kafka",
    "read_noted_kafka",
    "read_noted_log",
    "run_adaptively",
    "spark_jars",
    "split_late",
    "with_noted_watermark",
]
