"""An exact watermark for Spark Structured Streaming, from the marks that writers vouch for.

Spark starts several Python processes for a query, and each imports what it needs of this package:
so a name is imported when it is first used. Nor is there in every Spark what each name needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from noted_time.extras import imported, needs_extra

if TYPE_CHECKING:
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

try:
    import_module(f"{__name__}.watermark")  # which needs what all of the package needs
    from spark_integration.versions import require
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

MODULES = {
    "Align": "options",
    "Batches": "options",
    "CatchUp": "options",
    "Columns": "options",
    "Ingestion": "options",
    "KafkaOffsets": "complete_kafka",
    "KafkaTopic": "positions",
    "Mode": "adaptive",
    "NotedLog": "positions",
    "NotedLogSink": "noted_log_sink",
    "PositionListener": "position_listener",
    "ReadRange": "options",
    "kafka_offsets": "complete_kafka",
    "read_complete": "complete_read",
    "read_complete_kafka": "complete_kafka",
    "read_noted_kafka": "kafka_read",
    "read_noted_log": "noted_log",
    "run_adaptively": "adaptive",
    "spark_jars": "jars",
    "split_late": "late_rows",
    "with_noted_watermark": "noted_watermark",
}


def __getattr__(name: str) -> object:
    if name in MODULES:
        require(name)
    names = {each: (f"{__name__}.{module}", "spark") for each, module in MODULES.items()}
    return imported(__name__, names, name)
