"""An exact watermark for Spark Structured Streaming, from the marks that writers vouch for.

Names are imported on first use, because Spark's Python processes may lack packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily, require_extra

if TYPE_CHECKING:
    from spark_integration.checkpoint.listener import PositionListener as PositionListener
    from spark_integration.checkpoint.source_positions import KafkaTopic as KafkaTopic
    from spark_integration.checkpoint.source_positions import NotedLog as NotedLog
    from spark_integration.complete.read_kafka import read_complete_kafka as read_complete_kafka
    from spark_integration.complete.read_late import read_late_kafka as read_late_kafka
    from spark_integration.kafka.read import read_noted_kafka as read_noted_kafka
    from spark_integration.kafka.read_relayed import read_relayed_kafka as read_relayed_kafka
    from spark_integration.kafka.records import KafkaRecords as KafkaRecords
    from spark_integration.marks.arguments import Noted as Noted
    from spark_integration.marks.arguments import WatermarkPolicy as WatermarkPolicy
    from spark_integration.marks.reader_options import CatchUp as CatchUp
    from spark_integration.marks.reader_options import Ingestion as Ingestion
    from spark_integration.marks.window import BatchRead as BatchRead
    from spark_integration.marks_source.read import with_noted_watermark as with_noted_watermark
    from spark_integration.session.connector import kafka_package as kafka_package
    from spark_integration.session.zones import build_utc_expression as build_utc_expression

with require_extra(__name__, "spark"):
    import spark_integration.marks.watermark  # noqa: F401 - imports all common dependencies
    from spark_integration.session.versions import require

LAZY_IMPORTS = {
    "BatchRead": "marks.window",
    "CatchUp": "marks.reader_options",
    "Ingestion": "marks.reader_options",
    "KafkaRecords": "kafka.records",
    "KafkaTopic": "checkpoint.source_positions",
    "Noted": "marks.arguments",
    "NotedLog": "checkpoint.source_positions",
    "PositionListener": "checkpoint.listener",
    "WatermarkPolicy": "marks.arguments",
    "build_utc_expression": "session.zones",
    "kafka_package": "session.connector",
    "read_complete_kafka": "complete.read_kafka",
    "read_late_kafka": "complete.read_late",
    "read_noted_kafka": "kafka.read",
    "read_relayed_kafka": "kafka.read_relayed",
    "with_noted_watermark": "marks_source.read",
}

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    if name in LAZY_IMPORTS:
        require(name)
    names = {
        public_name: (f"{__name__}.{module}", "spark")
        for public_name, module in LAZY_IMPORTS.items()
    }
    return import_lazily(__name__, names, name)
