import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from noted_time_extensions.tables.tests.support.claimed import TEN, Orders
from tests.support.airflow import Airflow
from tests.support.page import BLOCK, read_page
from tests.support.suites import find_programs
from tools.trials.kafka import Broker
from tools.trials.served import Served

PAGE = "docs/guides/schedulers.md"
SINK = "group:connect-orders-jdbc@{}/sink"


SCHEDULE = re.compile(r"\bschedule=.*,$", re.MULTILINE)
THREE_HOURS = {
    "datetime(2013, 1, 1, tzinfo=UTC)": "datetime(2013, 1, 1, 8, tzinfo=UTC)",
    "catchup=True": "catchup=True, end_date=datetime(2013, 1, 1, 10, tzinfo=UTC)",
    "@dag(": "@dag(is_paused_upon_creation=True,",
}
"""Changes that let a DAG have the runs of 8:00, 9:00 and 10:00, from when a test lets it run."""


def adapt_dag(
    given: str, name: str, changes: Mapping[str, str], *, is_scheduled: bool = False
) -> str:
    """Return a DAG of the page under another name, with these changes, by default unscheduled."""
    blocks: list[tuple[str, str]] = BLOCK.findall(read_page(PAGE))
    dag = next(block for language, block in blocks if language == "python" and given in block)
    always = {
        given: name,
        "timeout=timedelta(hours=6)": "timeout=timedelta(hours=6), poke_interval=1",
    }
    for page_text, local_text in {**always, **changes}.items():
        assert page_text in dag
        dag = dag.replace(page_text, local_text)
    assert len(SCHEDULE.findall(dag)) == 1
    return dag if is_scheduled else SCHEDULE.sub("schedule=None,", dag)


@pytest.fixture(scope="session")
def controller() -> Iterator[Served]:
    """Return the controller of Airflow's connection."""
    with Served() as running:
        yield running


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """Return a table without a version."""
    return Orders(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="session")
def idle_airflow(
    tmp_path_factory: pytest.TempPathFactory, controller: Served, orders: Orders, broker: Broker
) -> Airflow:
    """Return an Airflow with the page's DAG, for each `missing`, for a table and for a sink."""
    programs: Path = find_programs("airflow")
    connection = {"conn_type": "noted_time", "host": "127.0.0.1", "port": controller.port}
    home = tmp_path_factory.mktemp("airflow") / "home"
    idle_airflow = Airflow(programs, home, AIRFLOW_CONN_NOTED_TIME_DEFAULT=json.dumps(connection))
    stream = 'dataset="orders"'
    missing = 'missing="fail"'
    for name in ("fail", "wait", "warn", "alone"):
        changes = {
            stream: f'dataset="{name}"',
            missing: f'missing="{name.replace("alone", "fail")}"',
        }
        (idle_airflow.dags / f"{name}.py").write_text(adapt_dag("orders_hourly", name, changes))
    changes = {stream: f"dataset={orders.url!r}"}
    (idle_airflow.dags / "table.py").write_text(adapt_dag("orders_hourly", "table", changes))
    changes = {"group:connect-orders-jdbc@kafka:9092/orders": SINK.format(broker.address)}
    (idle_airflow.dags / "sink.py").write_text(adapt_dag("orders_loaded", "sink", changes))
    changes = {stream: 'dataset="built"', "/srv/shop": "/", '"dbt run': '"echo dbt run'}
    (idle_airflow.dags / "built.py").write_text(adapt_dag("orders_built", "built", changes))
    changes = {stream: 'dataset="repaired"'} | THREE_HOURS
    repaired_dag = adapt_dag("orders_hourly", "repaired", changes, is_scheduled=True)
    (idle_airflow.dags / "repaired.py").write_text(repaired_dag)
    return idle_airflow


@pytest.fixture(scope="session")
def dags_test_output(idle_airflow: Airflow, controller: Served) -> str:
    """Return what `airflow dags test` prints; a scheduler would take tasks from it."""
    controller.create("alone", expected_writers=["oslo"])
    controller.post("alone", {"writer": "oslo", "time": TEN})
    return idle_airflow.command("dags", "test", "alone", "2013-01-01T10:00:00")


@pytest.fixture(scope="session")
def airflow(idle_airflow: Airflow, dags_test_output: str) -> Iterator[Airflow]:
    """Return it running."""
    assert dags_test_output
    with idle_airflow as running:
        yield running
