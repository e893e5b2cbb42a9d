"""dbt as in docs/guides/schedulers.md: its own end loses rows, and the marks' time does not."""

from pathlib import Path

import pytest

from tests.support.page import BLOCK, read_page, read_section
from tests.support.warehouse import FILE, HOUR, Warehouse
from tools.trials.calls import HOUR_MS
from tools.trials.served import Served

PAGE = "docs/guides/schedulers.md"
PROJECT = """
name: shop
profile: shop
flags: {send_anonymous_usage_stats: false, version_check: false}
"""
PROFILE = f"shop: {{target: dev, outputs: {{dev: {{type: duckdb, path: {FILE}}}}}}}\n"
LOAD = dict(BLOCK.findall(read_section(PAGE, "dbt")))["sh"]
SCHEDULE, REPAIR = (
    LOAD + block
    for language, block in BLOCK.findall(read_page(PAGE))
    if language == "sh" and 'load "$start" "$end"' in block
)
BY_ALL = "by 2 writers, all that are expected\n"
AS_USUAL = "dbt run --select orders_clean"


@pytest.fixture
def shop(tmp_path: Path, dbt: Path, served: Served) -> Warehouse:
    """Return one with the model of the page."""
    blocks = dict(BLOCK.findall(read_section(PAGE, "dbt")))
    files = {"dbt_project.yml": PROJECT, "profiles.yml": PROFILE}
    files |= {"models/sources.yml": blocks["yaml"], "models/orders_clean.sql": blocks["sql"]}
    shop = Warehouse(tmp_path, dbt, "orders_clean", served)
    shop.write(files)
    return shop


@pytest.mark.parametrize(
    ("script", "says", "first", "then"),
    [
        (AS_USUAL, "", "[([1, 2, 3, 4],)]", "[([1, 2, 3, 4],)]"),
        (SCHEDULE, BY_ALL, "[([1],)]", "[([1, 2, 3, 4, 5],)]"),
    ],
    ids=["by the clock", "by the marks"],
)
def test_rows_that_arrive_late_are_in_the_model(
    shop: Warehouse, script: str, says: str, first: str, then: str
) -> None:
    """The end that the marks give loses no row. dbt's own end loses one."""
    runs = [shop.run(script)]
    before = shop.orders
    shop.order(5, hours_ago=5)
    shop.note(lima=0)
    runs.append(shop.run(script))

    results = [(process.returncode, process.stderr.partition("Z, ")[2]) for process in runs]
    assert results == [(0, says)] * 2
    assert (before, shop.orders) == (first, then)


def test_missing_writer_stops_the_schedule(shop: Warehouse) -> None:
    """The status is 3, and dbt does not run."""
    shop.served.call("DELETE", f"/{shop.stream}/writers/lima")
    result = shop.run(SCHEDULE)

    assert (result.returncode, result.stdout) == (3, "")
    assert "without lima: removed by an operator" in result.stderr


def test_hours_with_late_rows_are_repaired(shop: Warehouse) -> None:
    """Only the hours that the writers report are run again."""
    shop.note(lima=0)
    shop.run(SCHEDULE)
    shop.order(5, hours_ago=5)
    time = HOUR - 5 * HOUR_MS + 60_000
    late = {"writer": "lima", "late_rows": {"rows": 1, "min_time": time, "max_time": time}}
    shop.served.call("POST", f"/{shop.stream}/notes", {"notes": [late]})
    result = shop.run(REPAIR)

    assert (result.returncode, result.stderr) == (0, "")
    assert (result.stdout.count("START batch"), shop.orders) == (1, "[([1, 2, 3, 4, 5],)]")
