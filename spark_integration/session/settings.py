"""The settings of a session, as far as they can be read, and the names of sources they demand."""

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
    """Return a setting; the default where a platform refuses to read it, as it refuses to set it.

    Databricks does so on serverless compute, by the error CONFIG_NOT_AVAILABLE.
    """
    try:
        return str(spark.conf.get(name, default))
    except PySparkException:
        return default


def build_source_name(kind: str, streams: Iterable[str], domain: str | None) -> str:
    """Return the name of a source of ours that reads a domain of streams.

    A checkpoint has the offset of each source under its name, and one with another name begins
    anew: so nothing counts that may change between two runs. Events have the name of their marks,
    and `EVENTS_SUFFIX`.

    >>> build_source_name("log", ["flights"], None), build_source_name("marks", ["a.b", "c"],
    ...     "ship")
    ('noted_time_log_flights_default_e37f7288', 'noted_time_marks_a_b_c_ship_226352dc')
    """
    words = "/".join((*sorted(streams), domain or "default"))
    shown = re.sub(r"[^A-Za-z0-9]", "_", words)[:100]  # as Spark names a directory by it
    return f"{OWN_PREFIX}{kind}_{shown}_{sha256(words.encode()).hexdigest()[:8]}"


def set_reader_name(spark: SparkSession, reader: DataStreamReader, name: str) -> DataStreamReader:
    """Return the reader under a name, if the session demands one: otherwise Spark refuses it."""
    demands = (
        hasattr(reader, "name")
        and read_setting(spark, EVOLUTION_SETTING, "false").lower() == "true"
    )
    return reader.name(name) if demands else reader
