"""The Spark release that each part of this extension needs."""

from __future__ import annotations

from spark_integration.extending import PYTHON_SOURCES, require

NEEDED_RELEASES = dict.fromkeys(
    ("NotedLogSink", "read_complete", "read_noted_log", "split_late"), PYTHON_SOURCES
)

ALTERNATIVE_CALLS = {
    "NotedLogSink": "Spark's own sinks write the rows, without noting their times",
    "read_complete": "read_complete_kafka reads complete windows of Kafka topics",
}


def require_release(name: str) -> None:
    """Raise `SparkTooOld` or `SparkTooNew` if a part does not run with this process's PySpark."""
    require(name, needed_release=NEEDED_RELEASES.get(name), alternative=ALTERNATIVE_CALLS.get(name))
