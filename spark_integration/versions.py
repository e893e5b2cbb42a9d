"""Which release of Spark each part of this package needs."""

from __future__ import annotations

import logging
import re
from functools import cache
from typing import NamedTuple

import pyspark

from noted_time import Rejected

log = logging.getLogger("noted_time.spark")

Release = tuple[int, int]

OLDEST: Release = (3, 5)
NEWEST: Release = (4, 3)
"""The releases that the tests run with, and those between them."""

PYTHON_SOURCES: Release = (4, 2)
"""The first release in which a Python source may say how much of a stream a micro-batch reads."""


class SparkTooOld(Rejected, ImportError):
    """The Spark that runs lacks what was asked for. An `ImportError` too, as imports raise it."""


class Need(NamedTuple):
    """The first release that something works with, and what does with older ones."""

    release: Release
    instead: str


_OF_STREAMS = Need(
    PYTHON_SOURCES, 'read_noted_kafka(marks="topic") reads Kafka topics with exact watermarks'
)
_OF_BATCHES = Need((4, 0), "read_complete_kafka reads complete windows of Kafka topics")
_OF_SINKS = Need((4, 0), "Spark's own sinks write the rows, without noting their times")

NEEDS = {
    "NotedLogSink": _OF_SINKS,
    "read_complete": _OF_BATCHES,
    'read_noted_kafka(marks="ahead")': _OF_STREAMS,
    'read_noted_kafka(marks="committed")': _OF_STREAMS,
    "read_noted_log": _OF_STREAMS,
    "run_adaptively": _OF_STREAMS,
    "split_late": _OF_STREAMS,
    "with_noted_watermark": _OF_STREAMS,
}
"""What needs a newer release than `OLDEST`, by the name that a user writes."""


def require(asked: str, running: str = "") -> None:
    """Raise `SparkTooOld` if a Spark lacks what is asked for; warn once of one newer than `NEWEST`.

    A name that `NEEDS` lacks works with `OLDEST`. By default it is the PySpark of this process.

    >>> require("PositionListener", "3.5.9")
    >>> require("read_noted_log", "4.1.4")
    Traceback (most recent call last):
        ...
    spark_integration.versions.SparkTooOld: read_noted_log needs PySpark 4.2 or newer, ...
    """
    running = running or pyspark.__version__
    release = release_of(running)
    if release < OLDEST:
        oldest = _shown(OLDEST)
        raise SparkTooOld(f"noted-time needs PySpark {oldest} or newer, and {running} runs here")
    if release > NEWEST:
        _warn_of(running)
    need = NEEDS.get(asked)
    if need and release < need.release:
        raise SparkTooOld(
            f"{asked} needs PySpark {_shown(need.release)} or newer, and {running} runs here; with "
            f"this one, {need.instead}"
        )


@cache
def _warn_of(running: str) -> None:
    log.warning(
        "this noted-time is tested with PySpark %s to %s, and %s runs here: compare what a query "
        "counts with a batch read of the same rows before you rely on it",
        _shown(OLDEST),
        _shown(NEWEST),
        running,
    )


def release_of(version: str) -> Release:
    """Return major and minor, whatever a vendor adds.

    >>> release_of("3.5.2+amzn-1"), release_of("4.3.0.dev0")
    ((3, 5), (4, 3))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def _shown(release: Release) -> str:
    return ".".join(map(str, release))
