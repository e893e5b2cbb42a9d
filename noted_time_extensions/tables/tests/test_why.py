"""`noted-time why`: the hop that holds back a dataset, on Iceberg and from Python."""

from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from noted_time.lineage import Dataset
from noted_time_extensions.tables import inherit, pin
from noted_time_extensions.tables.tests.support.claimed import ROWS, TEN, Orders
from reader_client import why
from tests.cli.conftest import Commands, note
from tools.trials.served import Served

HOUR = TEN + 3_600_000


@pytest.fixture
def orders(tmp_path: Path, served: Served, stream: str) -> Orders:
    """Return a table that a query writes from the stream."""
    note(served, stream, lima=TEN, oslo=TEN)
    table = Orders(tmp_path)
    table.claim(TEN, 0, stream=stream)
    return table


def run_job(directory: Path, *sources: str) -> str:
    """Write the table of a job, and inherit the claims of its sources."""
    pins = pin(*sources)
    write_deltalake(directory / "gold", ROWS, mode="overwrite")
    inherit(f"delta:{directory}/gold", pins, name="gold", time_of="id")
    return f"delta:{directory}/gold"


def test_a_table_is_known_by_its_scheme() -> None:
    assert Dataset("delta:/lake/gold").kind == "table"
    assert Dataset("iceberg:lake.gold").kind == "table"
    assert Dataset("./gold").kind == "checkpoint"


def test_the_library_returns_the_same_hops(run: Commands, orders: Orders, tmp_path: Path) -> None:
    gold = run_job(tmp_path, orders.url)
    hops = run("why", gold, "--json").json["hops"]
    explanation = why(gold, controller=run.url)

    for found_hop, hop in zip(explanation.hops.values(), hops, strict=True):
        assert found_hop.complete_to == hop["complete_to"]


def test_iceberg_is_followed(
    run: Commands, orders: Orders, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk goes from a table of Delta to Iceberg, even if the pinned snapshot has expired."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.days", ROWS.schema)
    table.append(ROWS)

    def load_catalog(_: str) -> SqlCatalog:
        return catalog

    monkeypatch.setattr("pyiceberg.catalog.load_catalog", load_catalog)
    days = "iceberg:lake.db.days"
    inherit(days, pin(orders.url), name="days", time_of="id")
    gold = run_job(tmp_path, days)
    orders.claim(HOUR, 1, stream=stream)
    stale = run("why", gold, HOUR)
    snapshot_ids = [snapshot.snapshot_id for snapshot in table.refresh().snapshots()]
    for _ in range(2):
        table.append(ROWS)
        inherit(days, pin(orders.url), name="days", time_of="id")
    table.refresh().maintenance.expire_snapshots().by_ids(snapshot_ids).commit()
    later_result = run("why", gold, HOUR)

    assert (stale.status, later_result.status) == (124, 124)
    assert f"the job that writes {days} has not run since 20" in stale.out
    assert f"the job that writes {gold} has not run since 20" in later_result.out
