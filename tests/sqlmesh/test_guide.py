"""SQLMesh as in docs/guides/schedulers.md: its own end loses rows, and the signal does not."""

from pathlib import Path

import pytest

from tests.support.page import BLOCK, read_section
from tests.support.suites import find_programs
from tests.support.warehouse import FILE, Warehouse
from tools.trials.served import Served

PAGE = "docs/guides/schedulers.md"
CONFIG = f"""
gateways: {{local: {{connection: {{type: duckdb, database: {FILE}}}}}}}
default_gateway: local
model_defaults: {{dialect: duckdb}}
disable_anonymized_analytics: true
"""
BLOCKS = dict(BLOCK.findall(read_section(PAGE, "SQLMesh")))
SIGNAL = "  signals (complete(stream := 'orders'))\n"
PLAN = "sqlmesh plan --auto-apply --no-prompts"
RUN = "sqlmesh run"


def project(signals: str = SIGNAL) -> dict[str, str]:
    """Return the files of the page, with these signals."""
    assert SIGNAL in BLOCKS["sql"]
    return {
        "config.yaml": CONFIG,
        "models/orders_clean.sql": BLOCKS["sql"].replace(SIGNAL, signals),
        "signals/__init__.py": "",
        "signals/complete.py": BLOCKS["python"],
    }


@pytest.fixture
def shop(tmp_path: Path, served: Served) -> Warehouse:
    """Return one without a project."""
    return Warehouse(tmp_path, find_programs("sqlmesh") / "sqlmesh", "shop.orders_clean", served)


@pytest.mark.parametrize(
    ("signals", "first", "then"),
    [("", "[([1, 2, 3, 4],)]", "[([1, 2, 3, 4],)]"), (SIGNAL, "[([1],)]", "[([1, 2, 3, 4, 5],)]")],
    ids=["by the clock", "by the marks"],
)
def test_rows_that_arrive_late_are_in_the_model(
    shop: Warehouse, signals: str, first: str, then: str
) -> None:
    """The signal loses no row. SQLMesh's own end loses one."""
    shop.write(project(signals))
    process = shop.run(PLAN)
    before = shop.orders
    shop.order(5, hours_ago=5)
    shop.note(lima=0)
    ran = shop.run(RUN)

    assert (process.returncode, ran.returncode) == (0, 0), process.stdout + ran.stdout
    assert (before, shop.orders) == (first, then)


def test_missing_writer_stops_the_run(shop: Warehouse) -> None:
    """The error names the writer."""
    shop.write(project())
    shop.served.call("DELETE", f"/{shop.stream}/writers/lima")
    result = shop.run(PLAN)

    says = "without lima: removed by an operator" in result.stderr
    assert (result.returncode, says) == (1, True), result.stdout
