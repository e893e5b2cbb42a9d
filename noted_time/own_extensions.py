"""The names of noted-time's extensions, read only to say which one an unknown name needs."""

from __future__ import annotations

from collections.abc import Mapping

OWN_NAMES: Mapping[str, str] = {
    "analyse": "analyse",
    "claim": "tables",
    "delta:": "tables",
    "doctor --log": "files",
    "iceberg:": "tables",
    "observe log": "files",
    "observe kafka debezium": "debezium",
    "observe kafka field": "observe",
    "observe kafka read-timestamp": "observe",
    "observe kafka resolved": "observe",
}
"""The extension of each command and check, and of each scheme with its colon."""

MOVED_NAMES: Mapping[str, str] = {
    "noted_time.tables": "noted_time_extensions.tables",
    "spark_integration.Batches": "noted_time_extensions.files.Batches",
    "spark_integration.Columns": "noted_time_extensions.files.Columns",
    "spark_integration.NotedLogSink": "noted_time_extensions.files.NotedLogSink",
    "spark_integration.NotedTable": "noted_time_extensions.tables.NotedTable",
    "spark_integration.ReadRange": "noted_time_extensions.files.ReadRange",
    "spark_integration.TableClaims": "noted_time_extensions.tables.TableClaims",
    "spark_integration.read_complete": "noted_time_extensions.files.read_complete",
    "spark_integration.read_noted_log": "noted_time_extensions.files.read_noted_log",
    "spark_integration.split_late": "noted_time_extensions.files.split_late",
    "writer_client.Batch": "noted_time_extensions.files.Batch",
    "writer_client.LogEnds": "noted_time_extensions.files.LogEnds",
    "writer_client.LogTimes": "noted_time_extensions.files.LogTimes",
    "writer_client.SegmentLogWriter": "noted_time_extensions.files.SegmentLogWriter",
    "writer_client.KafkaFields": "noted_time_extensions.observe.KafkaFields",
    "writer_client.KafkaResolved": "noted_time_extensions.observe.KafkaResolved",
    "writer_client.registered_time": "noted_time_extensions.observe.registered_time",
}
"""Where a name is that was in the core before."""
