"""The suites of `./run test`, for `./run`, a build and CONTRIBUTING.

`python3 tools/install/suites.py` prints how a build calls them, a line each.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CONNECTORS = "noted_time_extensions/tables/tests/connectors"
SPARK_FOLDERS = (
    "tests/spark tests/cluster noted_time_extensions/*/tests/spark "
    f"noted_time_extensions/*/tests/cluster {CONNECTORS}"
)
"""The folders of the tests of `--spark`."""


class Suite(NamedTuple):
    """The tests that `./run test` runs with an option.

    `--NAME` has the tests of `PARENT/NAME`, and of folders with this name in extensions. A suite
    that `installs` has a separate environment with the packages of `locks/NAME.lock`, or programs
    of Debian. The others need an idle machine.
    A build calls a suite for all its tests, for `tests`, or not at all.
    """

    option: str
    what: str
    installs: bool = True
    tests: str = ""
    is_built: bool = True
    parent: str = "tests"

    @property
    def name(self) -> str:
        return self.option[2:]

    @property
    def folders(self) -> list[str]:
        """The folders of the tests; `--spark` has none."""
        core_folders = ROOT.glob(f"{self.parent}/{self.name}")
        extension_folders = ROOT.glob(f"noted_time_extensions/*/tests/{self.name}")
        folders = [*sorted(core_folders), *sorted(extension_folders)]
        return [folder.relative_to(ROOT).as_posix() for folder in folders]


SUITES = (
    Suite(
        "--spark 3.5",
        "Spark, as far as this PySpark has it, in .venv-spark-3.5: 320 to 460 MB",
        tests="tests/spark/test_topic_marks.py tests/cluster/test_rented.py",
    ),
    Suite(
        "--spark 4.1",
        "likewise, and with 4.0: tables of Delta and Iceberg, too, 57 MB for the connectors",
        tests=CONNECTORS,
    ),
    Suite("--chart", "the Helm chart of deploy/, with a Helm that Go builds, once, in minutes"),
    Suite("--cluster", "Spark on a cluster", installs=False),
    Suite(
        "--operators",
        "operators with state, whose driver is killed",
        installs=False,
        is_built=False,
    ),
    Suite("--alone", "the core's tests, in a copy without any extension", installs=False),
    Suite("--pages", "the examples of all pages, as printed", installs=False),
    Suite("--chaos", "short trials of ./run chaos", installs=False, parent="tests/trials"),
    Suite(
        "--conformance",
        "writers in all languages, by ./run conformance, and its vectors",
        installs=False,
    ),
    Suite("--demo", "the stories of ./run demo", installs=False),
    Suite("--image", "the image of deploy/, built and run with Debian's buildah and mmdebstrap"),
    Suite(
        "--scale",
        "writers that fall silent together: 20,000, or TEST_WRITERS=200000",
        installs=False,
    ),
    Suite("--benchmarks", "what ./run bench measures, briefly", installs=False),
    Suite("--upgrade", "rolling restarts, from this version to the next", installs=False),
    Suite("--dbt", "the guide of dbt, with dbt"),
    Suite("--sqlmesh", "the guide of SQLMesh, with SQLMesh"),
    Suite("--airflow", "the provider for Airflow, with Airflow"),
    Suite("--docs", "the site of the pages"),
    Suite("--packages", "what ./run release builds"),
    Suite("--stores", "file logs in object stores, with moto's S3: 20 MB"),
    Suite("--debezium", "changes of PostgreSQL by Kafka Connect and Debezium", installs=False),
    Suite("--registry", "records that a schema registry describes, with Apicurio's: 142 MB"),
)
"""The suites in the order of a build, the long ones first."""

NAMED = tuple(suite for suite in SUITES if " " not in suite.option)
"""The suites with a folder of tests."""


def chosen_suites(arguments: list[str]) -> list[Suite]:
    """Remove `--dbt` and the like from the arguments and return their suites."""
    suites = [suite for suite in NAMED if suite.option in arguments]
    for suite in suites:
        arguments.remove(suite.option)
    return suites


def format_suites() -> str:
    """Return the suites as `./run --help` shows them."""
    width = max(len(suite.option) for suite in SUITES)
    return "\n".join(f"{'':11}{suite.option:<{width}}  {suite.what}" for suite in SUITES)


def table() -> str:
    """Return the table of CONTRIBUTING."""
    rows = ["| `./run test …` | what it tests | in a build |", "|---|---|---|"]
    for suite in SUITES:
        condition = "yes" if suite.is_built else "no"
        tests = f": `{suite.tests}`" if suite.tests else ""
        rows.append(f"| `{suite.option}` | {suite.what} | {condition}{tests} |")
    return "\n".join(rows) + "\n"


def calls() -> list[str]:
    """Return the arguments of a build's calls of `./run`, one for each suite."""
    built_suites = [suite for suite in SUITES if suite.is_built]
    return [f"test {suite.option} -n 0 {suite.tests}".strip() for suite in built_suites]


if __name__ == "__main__":
    print("\n".join(calls()))
