"""Which tests the installed Spark can run."""

from __future__ import annotations

from collections.abc import Iterable

import pyspark
import pytest

from spark_integration.session.versions import PYTHON_SOURCES, SparkTooOld, parse_release

RUNNING = parse_release(pyspark.__version__)


class OfOlderSpark(pytest.Module):
    """A module of tests, skipped if this Spark lacks its imports."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests, or skip them with the import's error."""
        try:
            return super().collect()
        except self.CollectError as error:
            lacking = error.__cause__
            if isinstance(lacking, SparkTooOld) or "'pyspark." in str(lacking):
                pytest.skip(str(lacking), allow_module_level=True)
            raise


def format_release(release: Iterable[int]) -> str:
    return ".".join(str(number) for number in release)


def skip_newer(items: Iterable[pytest.Item]) -> None:
    """Skip the tests that need a newer Spark, by default `PYTHON_SOURCES`."""
    for item in items:
        mark = item.get_closest_marker("needs_spark")
        needed_release = parse_release(mark.args[0]) if mark else PYTHON_SOURCES
        if item.get_closest_marker("spark") and needed_release > RUNNING:
            reason = f"needs PySpark {format_release(needed_release)}"
            item.add_marker(pytest.mark.skip(reason=reason))
