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
        "a source in Python",
        'read_noted_kafka(marks="ahead")',
        'read_noted_kafka(marks="committed")',
        "with_noted_watermark",
    ),
    PYTHON_SOURCES,
)

UNIVERSAL_CALL = "read_relayed_kafka reads Kafka topics with exact watermarks"


class SparkTooOld(Rejected, ImportError):
    """The running Spark is too old; imports raise it."""


class SparkTooNew(Rejected, ImportError):
    """The running Spark is newer than the tested ones; imports raise it."""


def require(
    part: str,
    running: str = "",
    *,
    needed_release: Release | None = None,
    alternative: str | None = None,
) -> None:
    """Raise `SparkTooOld` or `SparkTooNew` if a part does not run with Spark.

    `running` is the version of Spark, by default of this process's PySpark. A part of an extension
    states the release that is `needed_release`, and the `alternative` with an older one.

    >>> require("PositionListener", "3.5.9")
    >>> require("with_noted_watermark", "4.1.4")
    Traceback (most recent call last):
        ...
    spark_integration.session.versions.SparkTooOld: with_noted_watermark needs PySpark 4.2 or ...
    """
    running = running or pyspark.__version__
    release = parse_release(running)
    needed_release = needed_release or NEEDED_RELEASES.get(part, OLDEST)
    fault_and_remedy = find_untested(running)
    if fault_and_remedy is not None:
        fault, remedy = fault_and_remedy
        raise SparkTooNew(f"{fault}: {remedy}")
    if release < needed_release:
        requirement = (
            f"PySpark {needed_release[0]}.{needed_release[1]} or newer, and {running} runs here"
        )
        advice = ""
        if release >= OLDEST:
            advice = f"; with this one, {alternative or UNIVERSAL_CALL}"
        raise SparkTooOld(f"{part} needs {requirement}{advice}")


def find_untested(running: str) -> tuple[str, str] | None:
    """Return fault and remedy if a Spark is newer than the tested ones, and was not accepted."""
    release = parse_release(running)
    release_text = "{}.{}".format(*release)
    newest_text = "{}.{}".format(*NEWEST)
    if release <= NEWEST or os.environ.get(ACCEPTING_VARIABLE) == release_text:
        return None
    fact = f"noted-time is tested with PySpark up to {newest_text}"
    return (
        f"{fact}, and {running} may plan queries so that rows are lost",
        (
            f"install PySpark {newest_text}, or set {ACCEPTING_VARIABLE}={release_text} to accept "
            "the risk"
        ),
    )


def parse_release(version: str) -> Release:
    """Return the major and minor version, without suffixes of vendors.

    >>> parse_release("3.5.2+amzn-1"), parse_release("4.3.0.dev0")
    ((3, 5), (4, 3))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
