"""How our streaming sources are named, which Spark demands where the sources of a query may change.

A checkpoint has the offset of each source under its name: a source with another name begins anew.
So a name follows from what is read, and from nothing that may change between two runs.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING

from spark_integration.session.settings import setting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
OWN_PREFIX = "noted_time_"
EVENTS_SUFFIX = "_events"
"""How the name of events continues that of their marks, if both sources are ours."""

WORDS_SHOWN = 100
"""How many characters of a name tell what it reads, before a hash: it names a directory, too."""


def source_name(kind: str, streams: Iterable[str], domain: str | None) -> str:
    """Return the name of a source of ours that reads a domain of streams.

    >>> source_name("log", ["flights"], None), source_name("marks", ["a.b", "c"], "ship")
    ('noted_time_log_flights_default_3ffd6d30', 'noted_time_marks_a_b_c_ship_35d399f5')
    """
    words = (*sorted(streams), domain or "default")
    shown = re.sub(r"[^A-Za-z0-9]", "_", "_".join(words))[:WORDS_SHOWN]
    return f"{OWN_PREFIX}{kind}_{shown}_{sha256(json.dumps(words).encode()).hexdigest()[:8]}"


def with_name(spark: SparkSession, reader: DataStreamReader, name: str) -> DataStreamReader:
    """Return the reader under a name, if the session demands one: otherwise Spark refuses it."""
    demands = hasattr(reader, "name") and setting(spark, EVOLUTION, "false").lower() == "true"
    return reader.name(name) if demands else reader
