"""Reads a session's settings, and names sources if they require it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

EVOLUTION_SETTING = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
OWN_PREFIX = "noted_time_"
EVENTS_SUFFIX = "_events"


def read_setting(spark: SparkSession, name: str, default: str) -> str:
    """Return a setting, or the default if the platform refuses, as Databricks serverless does."""
    try:
        return str(spark.conf.get(name, default))
    except PySparkException:
        return default


def build_source_name(kind: str, streams: Iterable[str], domain: str | None) -> str:
    """Return the name under which a checkpoint stores a source's offsets.

    The source of events appends `EVENTS_SUFFIX` to the name of its marks.

    >>> build_source_name("log", ["flights"], None), build_source_name("marks", ["a.b", "c"],
    ...     "ship")
    ('noted_time_log_flights_default_e37f7288', 'noted_time_marks_a_b_c_ship_226352dc')
    """
    words = "/".join((*sorted(streams), domain or "default"))
    readable_words = re.sub(r"[^A-Za-z0-9]", "_", words)[:100]  # Spark uses it as a directory name
    return f"{OWN_PREFIX}{kind}_{readable_words}_{sha256(words.encode()).hexdigest()[:8]}"


def set_reader_name(spark: SparkSession, reader: DataStreamReader, name: str) -> DataStreamReader:
    """Spark refuses names unless the session requires them."""
    requires_name = (
        hasattr(reader, "name")
        and read_setting(spark, EVOLUTION_SETTING, "false").lower() == "true"
    )
    return reader.name(name) if requires_name else reader
