"""The names of noted-time's extensions, read only to say which one an unknown name needs."""

from __future__ import annotations

from collections.abc import Mapping

OWN_NAMES: Mapping[str, str] = {
    "analyse": "analyse",
    "claim": "tables",
    "delta:": "tables",
    "iceberg:": "tables",
    "observe kafka field": "observe",
    "observe kafka read-timestamp": "observe",
    "observe kafka resolved": "observe",
}
"""The extension of each command, and of each scheme with its colon."""

MOVED_NAMES: Mapping[str, str] = {
    "noted_time.tables": "noted_time_extensions.tables",
    "spark_integration.NotedTable": "noted_time_extensions.tables.NotedTable",
    "spark_integration.TableClaims": "noted_time_extensions.tables.TableClaims",
    "writer_client.KafkaFields": "noted_time_extensions.observe.KafkaFields",
    "writer_client.KafkaResolved": "noted_time_extensions.observe.KafkaResolved",
    "writer_client.registered_time": "noted_time_extensions.observe.registered_time",
}
"""Where a name is that was in the core before."""
