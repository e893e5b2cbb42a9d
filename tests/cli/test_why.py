"""`noted-time why`: the hop that holds a dataset, on real tables and a real controller."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from demo.trials.served import Served
from noted_time.tables import inherit, pin
from reader_client import why
from tests.cli.conftest import Commands, Result
from tests.support.claimed import ROWS, TEN, Orders

MINUTE = 60_000
HOUR = "2013-01-01T11:00:00Z"
ASKED = str(TEN + 60 * MINUTE)


class Lake:
    """A stream of two writers, a table that a query writes from it, and one of a job."""

    def __init__(self, directory: Path, served: Served, stream: str) -> None:
        self.directory, self.served, self.stream = directory, served, stream
        served.create(stream, expected_writers=["lima", "oslo"])
        self.note(lima=0, oslo=0)
        self.orders = Orders(directory)
        self.orders.claim(TEN, 0, stream=stream)

    def note(self, **minutes: int) -> None:
        for writer, minute in minutes.items():
            self.served.post(self.stream, {"writer": writer, "time": TEN + minute * MINUTE})

    def run_job(self, name: str, *sources: str) -> str:
        """Write a table, and inherit the claims of its sources."""
        url, pins = f"delta:{self.directory / name}", pin(*sources)
        rows = pa.table({"hour_end": [1]})
        write_deltalake(str(self.directory / name), rows, mode="overwrite")
        inherit(url, pins, name=name, time_of="hour_end")
        return url

    def summarize(self, done: Result) -> tuple[int, str]:
        """Return the status and the first line, with short names."""
        first = done.out.partition("\n")[0].replace(f"delta:{self.directory}/", "")
        return done.status, first.replace(self.stream, "flights")


@pytest.fixture
def lake(tmp_path: Path, served: Served) -> Lake:
    return Lake(tmp_path, served, tmp_path.name)


def test_a_relative_path_is_found_from_any_directory(
    run: Commands, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.chdir(lake.directory)
        gold = lake.run_job("gold", lake.orders.url.replace(f"{lake.directory}/", ""))

    assert f"{lake.orders.url} is complete to" in run("why", gold, ASKED).out


def test_the_library_returns_the_same_hops(run: Commands, lake: Lake) -> None:
    gold = lake.run_job("gold", lake.orders.url)
    hops = run("why", gold, "--json").json["hops"]
    found = why(lake.served.url, gold)

    assert [each.complete_to for each in found.hops.values()] == [x["complete_to"] for x in hops]


def test_iceberg_is_followed(run: Commands, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk goes from a table of Delta to Iceberg, even if the pinned snapshot has expired."""
    place = f"sqlite:///{lake.directory}/lake.db"
    catalog = SqlCatalog("lake", uri=place, warehouse=f"file://{lake.directory}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.days", ROWS.schema)
    table.append(ROWS)
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda _: catalog)
    days = "iceberg:lake.db.days"
    inherit(days, pin(lake.orders.url), name="days", time_of="id")
    gold = lake.run_job("gold", days)
    lake.orders.claim(TEN + 60 * MINUTE, 1, stream=lake.stream)
    stale = lake.summarize(run("why", gold, ASKED))
    pinned = [each.snapshot_id for each in table.refresh().snapshots()]
    for _ in range(2):
        table.append(ROWS)
        inherit(days, pin(lake.orders.url), name="days", time_of="id")
    table.refresh().maintenance.expire_snapshots().by_ids(pinned).commit()
    again = lake.summarize(run("why", gold, ASKED))

    assert (stale[0], again[0]) == (3, 3)
    assert f"the job that writes {days} has not run since 20" in stale[1]
    assert "the job that writes gold has not run since 20" in again[1]
