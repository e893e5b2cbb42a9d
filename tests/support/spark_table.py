"""The table of results by release of Spark.

`./run test --spark V` loads this as a pytest plugin, which writes `TABLE` and its page.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.support.spark_versions import RUNNING, format_release

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "reference" / "spark-versions.json"
PAGE = ROOT / "docs" / "reference" / "versions.md"

FEATURES = {
    "read_relayed_kafka": "`read_relayed_kafka`",
    "read_noted_kafka": "`read_noted_kafka`",
    "read_noted_log": "`read_noted_log`",
    "with_noted_watermark": "`with_noted_watermark`",
    "split_late": "`split_late`",
    "read_complete_kafka": "`read_complete_kafka`",
    "read_complete": "`read_complete`",
    "NotedLogSink": "`NotedLogSink`",
    "PositionListener": "`PositionListener`",
    "Spark Connect": "all of these over Spark Connect",
    "rented Spark": "marks as a topic over Connect, without the package on the server",
}
"""Names for the mark `shows` of a test, and their rows of the table."""

HEAD = "| PySpark | "
"""The start of the table's first line."""

_outcomes: dict[str, set[str]] = defaultdict(set)


def render_table(table: Mapping[str, Any]) -> str:
    """Return the table as the page shows it.

    >>> print(render_table({"3.5": {"pyspark": "3.5.9", "passed": []}}).partition("| `split")[0])
    | PySpark | 3.5.9 |
    | --- | :-: |
    | `read_relayed_kafka` | - |
    ...
    """
    releases = table.values()
    lines = [
        [HEAD.strip("| "), *(release["pyspark"] for release in releases)],
        ["---", *[":-:"] * len(table)],
    ]
    for name, shown_feature in FEATURES.items():
        line = [shown_feature]
        for release in releases:
            line.append("✓" if name in release["passed"] else "-")
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def replace_table(page: str, table: str) -> str:
    """Return a page with its table replaced."""
    before, begin, after = page.partition(HEAD)
    _, _, rest = after.partition("\n\n")
    return f"{before}{table}\n{rest}" if begin else page


def pytest_configure(config: pytest.Config) -> None:
    """Py4j leaves sockets to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the features of a test to its reports, also from another process."""
    for mark in item.iter_markers("shows"):
        item.user_properties += [("shows", feature) for feature in mark.args]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the results of each feature's tests."""
    for name, feature in report.user_properties:
        if name == "shows" and (report.when == "call" or report.failed):
            _outcomes[str(feature)].add(report.outcome)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Store this run's results; features without a test stay as they are."""
    if hasattr(session.config, "workerinput"):
        return
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    release = format_release(RUNNING)
    passed_features = set(table.get(release, {}).get("passed", []))
    for feature, outcomes in _outcomes.items():
        (passed_features.add if outcomes == {"passed"} else passed_features.discard)(feature)
    table[release] = {"pyspark": pyspark.__version__, "passed": sorted(passed_features)}
    TABLE.write_text(json.dumps(dict(sorted(table.items())), indent=2) + "\n")
    PAGE.write_text(replace_table(PAGE.read_text(), render_table(dict(sorted(table.items())))))
