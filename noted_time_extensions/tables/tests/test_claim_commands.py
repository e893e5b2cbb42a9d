"""Claims of tables for a shell: `claim pin`, `claim inherit` and `claim accept`."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from noted_time_extensions import tables
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.tests.support.claimed import ROWS, TEN, Orders
from tests.cli.conftest import Commands
from tests.cli.test_odd_output import CONTROLS, EVIL, SHOWN


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    """Return a table that is complete to 10:02."""
    orders_table = Orders(tmp_path)
    orders_table.claim(TEN, 0)
    orders_table.claim(TEN + 120_000, 1)
    return orders_table


def test_accept_needs_kept_table_history(run: Commands, orders: Orders, tmp_path: Path) -> None:
    """`accept` and `why` say what to do."""
    for _ in range(2):
        write_deltalake(orders.path, ROWS, mode="append")
    DeltaTable(orders.path).create_checkpoint()
    for version in range(2):
        (tmp_path / f"orders/_delta_log/{version:020}.json").unlink()
    acceptance = run("claim", "accept", orders.url)
    explanation = run("why", orders.url)

    reason = "its claims are in history that has expired"
    remedy = "let its query claim (NotedTable), or its job (`noted-time claim inherit"
    assert (acceptance.status, explanation.status) == (1, 3)
    assert acceptance.out == f"{orders.url}: {reason}\nto claim: {remedy} {orders.url} …`)\n"
    assert explanation.out.endswith(f"To do: {remedy} {orders.url} …`)\n")


def test_the_table_of_a_job_is_opened_once(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table and each source are opened once for their history, columns and record."""
    gold = tmp_path / "gold"
    locations = []
    write_deltalake(gold, ROWS)
    pins = tables.pin(orders.url)

    class Opened(DeltaTable):
        def __init__(self, location: str) -> None:
            locations.append(location)
            super().__init__(location)

    monkeypatch.setattr("deltalake.DeltaTable", Opened)
    result = tables.inherit(f"delta:{gold}", pins, name="gold", time_of="id")

    assert (result.is_repeated, locations) == (False, [str(orders.path), str(gold)])


def test_control_characters_of_a_commit_are_escaped(run: Commands, tmp_path: Path) -> None:
    """JSON output stays JSON."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0)
    orders.record(
        Claim("web", TEN, EVIL, "r", 0, id="w", table=orders.table, missing_writers=(EVIL,))
    )
    result = run("claim", "show", orders.url, "--name", "web")
    plain = run("claim", "show", orders.url, "--name", "web", "--json")

    assert result.out.count(SHOWN) == 2
    assert json.loads(plain.out)["claims"]["web"]["time_of"] == EVIL
    assert not CONTROLS & set(result.out + plain.out)
