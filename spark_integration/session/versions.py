"""The Spark release that each part of this package needs."""

from __future__ import annotations

import os
import re

import pyspark

from noted_time import Rejected

Release = tuple[int, int]

OLDEST: Release = (3, 5)
NEWEST: Release = (4, 3)
PYTHON_SOURCES: Release = (4, 2)  # the first that limits micro-batches of a Python source

ACCEPTING_VARIABLE = "NOTED_TIME_UNTESTED_SPARK"
"""The environment variable with an untested release, such as `4.4`, which is then accepted."""

NEEDED_RELEASES = dict.fromkeys(
    (
        "NotedLogSink",
        "a source in Python",
        "read_complete",
        'read_noted_kafka(marks="ahead")',
        'read_noted_kafka(marks="committed")',
        "read_noted_log",
        "split_late",
        "with_noted_watermark",
    ),
    PYTHON_SOURCES,
)

ALTERNATIVE_CALLS = {
    "NotedLogSink": "Spark's own sinks write the rows, without noting their times",
    "read_complete": "read_complete_kafka reads complete windows of Kafka topics",
}
UNIVERSAL_CALL = "read_relayed_kafka reads Kafka topics with exact watermarks"


class SparkTooOld(Rejected, ImportError):
    """The running Spark is too old; imports raise it."""


class SparkTooNew(Rejected, ImportError):
    """The running Spark is newer than the tested ones; imports raise it."""


def require(asked: str, running: str = "") -> None:
    """Raise `SparkTooOld` or `SparkTooNew` if a part does not run with Spark.

    Spark is by default this process's PySpark.

    >>> require("PositionListener", "3.5.9")
    >>> require("read_noted_log", "4.1.4")
    Traceback (most recent call last):
        ...
    spark_integration.session.versions.SparkTooOld: read_noted_log needs PySpark 4.2 or newer, ...
    """
    running = running or pyspark.__version__
    release, needed = parse_release(running), NEEDED_RELEASES.get(asked, OLDEST)
    if untested := find_untested(running):
        raise SparkTooNew(": ".join(untested))
    if release < needed:
        requirement = f"PySpark {needed[0]}.{needed[1]} or newer, and {running} runs here"
        other = (
            f"; with this one, {ALTERNATIVE_CALLS.get(asked, UNIVERSAL_CALL)}"
            if release >= OLDEST
            else ""
        )
        raise SparkTooOld(f"{asked} needs {requirement}{other}")


def find_untested(running: str) -> tuple[str, str] | None:
    """Return fault and remedy if a Spark is newer than the tested ones, and was not accepted."""
    release, newest = parse_release(running), "{}.{}".format(*NEWEST)
    accepted = "{}.{}".format(*release)
    if release <= NEWEST or os.environ.get(ACCEPTING_VARIABLE) == accepted:
        return None
    tested = f"noted-time is tested with PySpark up to {newest}"
    return (
        f"{tested}, and {running} may plan queries so that rows are lost",
        f"install PySpark {newest}, or set {ACCEPTING_VARIABLE}={accepted} to accept the risk",
    )


def parse_release(version: str) -> Release:
    """Return the major and minor version, without suffixes of vendors.

    >>> parse_release("3.5.2+amzn-1"), parse_release("4.3.0.dev0")
    ((3, 5), (4, 3))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
