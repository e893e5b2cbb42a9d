"""The Spark release that each part of this package needs."""

from __future__ import annotations

import logging
import re
from functools import cache

import pyspark

from noted_time import Rejected

log = logging.getLogger("noted_time.spark")

Release = tuple[int, int]

OLDEST: Release = (3, 5)
NEWEST: Release = (4, 3)
PYTHON_SOURCES: Release = (4, 2)  # the first that limits micro-batches of a Python source

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
UNIVERSAL_CALL = 'read_noted_kafka(marks="topic") reads Kafka topics with exact watermarks'


class SparkTooOld(Rejected, ImportError):
    """The running Spark is too old; imports raise it."""


def require(asked: str, running: str = "") -> None:
    """Raise `SparkTooOld` if Spark, by default this process's PySpark, is too old for a part.

    >>> require("PositionListener", "3.5.9")
    >>> require("read_noted_log", "4.1.4")
    Traceback (most recent call last):
        ...
    spark_integration.session.versions.SparkTooOld: read_noted_log needs PySpark 4.2 or newer, ...
    """
    running = running or pyspark.__version__
    release, needed = parse_release(running), NEEDED_RELEASES.get(asked, OLDEST)
    if release > NEWEST:
        _warn_of_newer(running)
    if release < needed:
        requirement = f"PySpark {needed[0]}.{needed[1]} or newer, and {running} runs here"
        other = (
            f"; with this one, {ALTERNATIVE_CALLS.get(asked, UNIVERSAL_CALL)}"
            if release >= OLDEST
            else ""
        )
        raise SparkTooOld(f"{asked} needs {requirement}{other}")


@cache
def _warn_of_newer(running: str) -> None:
    log.warning("noted-time is tested with PySpark 3.5 to 4.3, and %s runs here", running)


def parse_release(version: str) -> Release:
    """Return the major and minor version, without suffixes of vendors.

    >>> parse_release("3.5.2+amzn-1"), parse_release("4.3.0.dev0")
    ((3, 5), (4, 3))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
