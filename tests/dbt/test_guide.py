"""What docs/guides/dbt.md shows: dbt's own end loses rows, and the time of the marks does not."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.calls import HOUR_MS
from tests.support.page import BLOCK, text_of
from tests.support.processes import environment
from tests.support.served import Served

PAGE = "docs/guides/dbt.md"
PROJECT = """
name: shop
profile: shop
flags: {send_anonymous_usage_stats: false, version_check: false}
"""
PROFILE = "shop: {target: dev, outputs: {dev: {type: duckdb, path: shop.duckdb}}}\n"

NOW = int(datetime.now(UTC).timestamp() * 1000)
HOUR = NOW - NOW % HOUR_MS
"""The present hour, in Unix ms: the default end of a model is now."""


class Shop:
    """A project of dbt's with the model of the page, over orders of two shops."""

    def __init__(self, directory: Path, dbt: Path, served: Served) -> None:
        self.directory, self.dbt, self.served = directory, dbt, served
        self.stream = uuid4().hex
        served.create(self.stream)
        begin = datetime.fromtimestamp((HOUR - 6 * HOUR_MS) / 1000, UTC)
        self.begin = f"{begin:%Y-%m-%dT%H:%M:%S}"
        blocks = dict(reversed(BLOCK.findall(text_of(PAGE))))
        model = blocks["sql"].replace('"2013-01-01"', f'"{self.begin}"')
        (directory / "models").mkdir()
        files = {"dbt_project.yml": PROJECT, "profiles.yml": PROFILE}
        files |= {"models/sources.yml": blocks["yaml"], "models/orders_clean.sql": model}
        for name, text in files.items():
            (directory / name).write_text(text)
        self.query("create table orders (ordered_at timestamptz, id integer)")

    def query(self, sql: str) -> str:
        """Return the rows as text, by the database that dbt runs on."""
        program = f"import duckdb; print(duckdb.connect('shop.duckdb').execute({sql!r}).fetchall())"
        words = [str(self.dbt.with_name("python")), "-c", program]
        return subprocess.check_output(words, cwd=self.directory, text=True).strip()

    def order(self, number: int, hours_ago: int) -> None:
        """Load an order of that many full hours before the present one."""
        at = HOUR - hours_ago * HOUR_MS + 60_000
        self.query(f"insert into orders values (to_timestamp({at // 1000}), {number})")  # noqa: S608 - integers

    def note(self, **hours_ago: int) -> None:
        """Have each shop note that all before that hour is loaded."""
        for writer, hours in hours_ago.items():
            notes = [{"writer": writer, "time": HOUR - hours * HOUR_MS}]
            self.served.call("POST", f"/{self.stream}/notes", {"notes": notes})

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script with dbt and `noted-time` on its path."""
        script = script.replace("orders --", f"{self.stream} --")
        script = script.replace("2013-01-01T00:00:00Z", f"{self.begin}Z")
        path = os.pathsep.join([str(self.dbt.parent), os.environ["PATH"]])
        variables = environment(PATH=path, NOTED_TIME_URL=self.served.url, DO_NOT_TRACK="1")
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.directory,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def orders(self) -> str:
        """The numbers of the orders in the model's table."""
        return self.query("select list(id order by id) from orders_clean")


SCHEDULE, REPAIR = (block for language, block in BLOCK.findall(text_of(PAGE)) if language == "sh")
AS_USUAL = "dbt run --select orders_clean"


@pytest.fixture
def shop(tmp_path: Path, dbt: Path, served: Served) -> Shop:
    """Return one in which Lima's order of five hours ago is not loaded yet."""
    shop = Shop(tmp_path, dbt, served)
    shop.note(oslo=6, lima=6)
    shop.note(oslo=0, lima=5)
    for number, hours_ago in enumerate((6, 5, 3, 1), start=1):
        shop.order(number, hours_ago)
    return shop


@pytest.mark.parametrize(
    ("script", "first", "then"),
    [
        (AS_USUAL, "[([1, 2, 3, 4],)]", "[([1, 2, 3, 4],)]"),
        (SCHEDULE, "[([1],)]", "[([1, 2, 3, 4, 5],)]"),
    ],
    ids=["by the clock", "by the marks"],
)
def test_rows_that_arrive_late_are_in_the_model(
    shop: Shop, script: str, first: str, then: str
) -> None:
    """With the end that the marks give; with dbt's own, one is lost."""
    runs = [shop.run(script)]
    before = shop.orders
    shop.order(5, hours_ago=5)
    shop.note(lima=0)
    runs.append(shop.run(script))

    assert [(each.returncode, each.stderr) for each in runs] == [(0, "")] * 2
    assert (before, shop.orders) == (first, then)


def test_a_missing_writer_stops_the_schedule(shop: Shop) -> None:
    """With its status, before dbt runs."""
    shop.served.call("DELETE", f"/{shop.stream}/writers/lima")
    found = shop.run(SCHEDULE)

    assert (found.returncode, found.stdout) == (3, "")
    assert "without lima: removed by an operator" in found.stderr


def test_hours_into_which_rows_came_late_are_repaired(shop: Shop) -> None:
    """Those that their writers report, and nothing else runs."""
    shop.note(lima=0)
    shop.run(SCHEDULE)
    shop.order(5, hours_ago=5)
    at = HOUR - 5 * HOUR_MS + 60_000
    late = {"writer": "lima", "late": {"rows": 1, "least": at, "most": at}}
    shop.served.call("POST", f"/{shop.stream}/notes", {"notes": [late]})
    repaired = shop.run(REPAIR)

    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert (repaired.stdout.count("START batch"), shop.orders) == (1, "[([1, 2, 3, 4, 5],)]")
