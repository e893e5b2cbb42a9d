"""`noted-time why`: the hop that holds a dataset, on real tables and a real controller."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from noted_time import why
from noted_time.tables import inherit, pin
from tests.cli.conftest import Commands, Said
from tests.support.claimed import ROWS, TEN, Orders
from tests.support.served import Served

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

    def run_job(self, name: str, *sources: str, delay_ms: int = 0) -> str:
        """Write a table, and inherit the claims of its sources."""
        url, pins = f"delta:{self.directory / name}", pin(*sources)
        rows = pa.table({"hour_end": [1]})
        write_deltalake(str(self.directory / name), rows, mode="overwrite")
        inherit(url, pins, name=name, time_of="hour_end", delay_ms=delay_ms)
        return url

    def said(self, done: Said) -> tuple[int, str]:
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


def test_without_a_time_the_hop_that_is_furthest_behind_is_the_answer(
    run: Commands, lake: Lake
) -> None:
    """A declared delay is not a lag. The library returns the same hops."""
    lake.note(oslo=20, lima=10)
    lake.orders.claim(TEN + 9 * MINUTE, 1, stream=lake.stream)
    late = lake.run_job("late", lake.orders.url, delay_ms=60 * MINUTE)
    done = run("why", late)
    hops = run("why", late, "--json").json["hops"]
    drawn = run("why", late, "--dot").out
    found = why(lake.served.url, late)

    because = "because lima has noted no time after 2013-01-01T10:10:00Z"
    late_to = "late is complete to 2013-01-01T09:09:00Z and not to a later time"
    assert lake.said(done) == (0, f"{late_to}, {because}")
    assert done.out.splitlines()[-1].startswith("To do: `noted-time explain")
    assert [(each["kind"], each["culprit"]) for each in hops] == [
        ("table", False),
        ("table", False),
        ("stream", True),
    ]
    assert f'"{late}"' in drawn
    assert [each.complete_to for each in found.hops.values()] == [x["complete_to"] for x in hops]


def test_hops_that_cannot_be_read_are_named(run: Commands, lake: Lake) -> None:
    """Its claim has ended, the table was moved, or no controller answers."""
    gold = lake.run_job("gold", lake.orders.url)
    lake.orders.overwrite()
    ended = lake.said(run("why", gold, ASKED))
    Path(lake.orders.path).rename(lake.directory / "away")
    lake.note(oslo=60, lima=60)
    moved = run("why", gold, ASKED)
    gone = lake.said(moved)
    nobody = Commands("http://127.0.0.1:9")
    away = nobody("why", gold, ASKED), nobody("why", lake.stream)

    start = f"gold is complete to 2013-01-01T10:00:00Z and not to {HOUR}, because"
    assert ended == (
        3,
        f"{start} nothing is claimed of orders: orders: ended by WRITE (Overwrite) in version 1",
    )
    assert gone[0] == 3
    assert gone[1].startswith(f"{start} orders cannot be read: there is no Delta table at")
    assert f"\n  {lake.stream} is complete to {HOUR}" in moved.out
    assert [each.status for each in away] == [3, 69]
    assert f"{lake.stream} cannot be read: no answer from http://127.0.0.1:9" in away[0].out


def test_a_table_of_iceberg_is_followed(
    run: Commands, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a table of Delta; also if the pinned snapshot has expired since."""
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
    stale = lake.said(run("why", gold, ASKED))
    pinned = [each.snapshot_id for each in table.refresh().snapshots()]
    for _ in range(2):
        table.append(ROWS)
        inherit(days, pin(lake.orders.url), name="days", time_of="id")
    table.refresh().maintenance.expire_snapshots().by_ids(pinned).commit()
    again = lake.said(run("why", gold, ASKED))

    assert (stale[0], again[0]) == (3, 3)
    assert f"the job that writes {days} has not run since 20" in stale[1]
    assert "the job that writes gold has not run since 20" in again[1]
