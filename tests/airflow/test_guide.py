"""The example of docs/guides/schedulers.md in a real Airflow: its DAG waits, runs or fails."""

from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pytest

from noted_time_extensions.tables.tests.support.claimed import TEN, Orders
from tests.support.airflow import Airflow
from tests.support.page import BLOCK, read_section
from tools.trials.calls import HOUR_MS
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import eventually, wait_until

REPAIR, LOAD = (
    block
    for language, block in BLOCK.findall(
        read_section("docs/guides/schedulers.md", "Repair late hours")
    )
    if language == "sh"
)
AT_TEN = "2013-01-01T10:00:00Z"
FOUND = {"complete_to": TEN, "complete_to_time": ANY}  # with which the next task computes
WAITS = {"complete": "deferred", "load": None}
DONE = {"complete": "success", "load": "success"}
WITHOUT_LIMA = "by 1 of 2 expected writers, without lima: "
LIMA_LACKS = "; lima (excluded, vouches to 2013-01-01T09:00:00Z) does not vouch"
FAILED = {"complete": "failed", "load": "upstream_failed"}


def note(controller: Served, stream: str, time: int, *writers: str) -> None:
    """Note a time as each writer."""
    controller.post(stream, *({"writer": name, "time": time} for name in writers))


@pytest.fixture(scope="module", autouse=True)
def run_dags_until_waiting(
    airflow: Airflow, controller: Served, orders: Orders, broker: Broker
) -> None:
    """Run each DAG until it waits. Then let the streams' time pass ten without Lima."""
    both = {"expected_writers": ["oslo", "lima"], "writer_timeout_ms": HOUR_MS}
    controller.create("orders", **both)
    note(controller, "orders", TEN - HOUR_MS, "oslo", "lima")
    orders.claim(TEN - HOUR_MS, 0, stream="orders")
    broker.create("sink", 1)
    broker.send("sink", [(0, "sold", TEN - 1)])
    controller.create("sink", expected_writers=["oslo"], writer_timeout_ms=HOUR_MS)
    controller.post("sink", {"writer": "oslo", "time": TEN, "position": {"0": 1}})
    streams = ("fail", "wait", "warn")
    for stream in streams:
        controller.create(stream, **both)
        note(controller, stream, TEN - HOUR_MS, "oslo", "lima")
    for dag in (*streams, "table"):
        airflow.begin(dag, AT_TEN)
    for dag in (*streams, "table"):
        eventually(partial(airflow.tasks, dag), WAITS)
        wait_until(partial(airflow.is_deferred, dag))
    for stream in streams:
        note(controller, stream, TEN, "oslo")
        controller.create(stream, writer_timeout_ms=200)
        wait_until(lambda: controller.lower(stream) == TEN)  # noqa: B023 - called here
        controller.create(stream, writer_timeout_ms=HOUR_MS)


def test_missing_writer_fails_the_task(airflow: Airflow) -> None:
    """Airflow does not retry, and the log names the writer."""
    assert eventually(partial(airflow.tasks, "fail"), FAILED)
    assert airflow.tasks("fail", "try_number")["complete"] == 1
    log = airflow.log("fail")
    assert f"fail is complete to {AT_TEN}, {WITHOUT_LIMA}" in log
    assert LIMA_LACKS in log


def test_warning_names_the_missing_writer_and_the_dag_runs(airflow: Airflow) -> None:
    """The next task gets the cut of the mark."""
    assert eventually(partial(airflow.tasks, "warn"), DONE)
    log = airflow.log("warn")
    assert f"warn is complete to {AT_TEN}, {WITHOUT_LIMA}" in log
    assert LIMA_LACKS in log
    assert airflow.result("warn", "complete") == {**FOUND, "seq": 2, "cut": {}}


def wait_for_log(airflow: Airflow, dag: str, text: str) -> None:
    wait_until(lambda: text in airflow.log(dag))


def test_missing_writer_is_waited_for_until_a_mark_has_it(
    airflow: Airflow, controller: Served
) -> None:
    """The triggerer names the writer, and no task runs meanwhile."""
    wait_for_log(airflow, "wait", "does not vouch")
    before = airflow.tasks("wait")
    note(controller, "wait", TEN + 1, "lima", "oslo")

    assert before == WAITS
    assert eventually(partial(airflow.tasks, "wait"), DONE)


def test_table_is_waited_for(airflow: Airflow, controller: Served, orders: Orders) -> None:
    """The next task has the version to read."""
    note(controller, "orders", TEN, "oslo", "lima")
    orders.claim(TEN, 1, stream="orders")

    assert eventually(partial(airflow.tasks, "table"), DONE)
    assert airflow.result("table", "complete") == {**FOUND, "version": 1}


def test_sink_is_waited_for_and_its_asset_has_the_time(airflow: Airflow, broker: Broker) -> None:
    """The asset's key names the hour before ten. The triggerer logs how far the group has read."""
    airflow.begin("sink", AT_TEN)
    before = eventually(partial(airflow.tasks, "sink"), {"complete": "deferred"})
    wait_for_log(airflow, "sink", "has committed no offset")
    wait_until(partial(airflow.is_deferred, "sink"))
    broker.commit("connect-orders-jdbc", "sink", {0: 1})

    assert before
    assert eventually(partial(airflow.tasks, "sink"), {"complete": "success"})
    (event,) = airflow.call("GET", "/assets/events")["asset_events"]
    assert (event["name"], event["partition_key"], event["extra"]) == (
        "orders_in_the_warehouse",
        "2013-01-01T09:00:00",
        {"complete_to": TEN, "seq": 1, "cut": {"0": 1}},
    )


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("127.0.0.1", "True The controller at http://127.0.0.1:{port} answers."),
        ("http://127.0.0.1:{port}", "True The controller at http://127.0.0.1:{port} answers."),
        ("http://127.0.0.1:9", "False no answer from http://127.0.0.1:9/v1/streams: "),
        ("ada@127.0.0.1", "False the URL of a controller cannot have a user or password"),
    ],
)
def test_connection_can_be_tested(
    airflow: Airflow, controller: Served, host: str, says: str
) -> None:
    """Airflow's page has a button for this call."""
    port = controller.port
    connection = {"connection_id": "tried", "conn_type": "noted_time", "port": port}
    answer = airflow.call(
        "POST", "/connections/test", connection | {"host": host.format(port=port)}
    )

    assert f"{answer['status']} {answer['message']}".startswith(says.format(port=port))


def test_airflow_lists_the_provider(airflow: Airflow) -> None:
    providers = airflow.call("GET", "/providers?limit=100")["providers"]

    assert "airflow-provider-noted-time" in {provider["package_name"] for provider in providers}


def test_dags_test_runs_the_dag_in_one_process(dags_test_output: str) -> None:
    times = "2013-01-01 09:00:00+00:00 to 2013-01-01 10:00:00+00:00"
    assert f"replace the rows from {times}" in dags_test_output


def test_run_by_hand_builds_the_closed_hour(airflow: Airflow, controller: Served) -> None:
    """The run has no data interval. dbt would build all of the hour that an end lies in."""
    controller.create("built", expected_writers=["oslo"], writer_timeout_ms=HOUR_MS)
    note(controller, "built", TEN - HOUR_MS, "oslo")
    note(controller, "built", TEN + HOUR_MS, "oslo")
    airflow.begin_by_hand("built", "2013-01-01T10:23:00Z")

    assert eventually(partial(airflow.tasks, "built"), {"complete": "success", "build": "success"})
    times = "--event-time-start 2013-01-01T09:00:00 --event-time-end 2013-01-01T10:00:00"
    assert airflow.result("built", "build") == f"dbt run --select orders_clean {times}"


def test_late_hours_are_repaired(airflow: Airflow, controller: Served, tmp_path: Path) -> None:
    """Three hours have a run, which runs again. The hour before the DAG's start gets a run."""
    controller.create("repaired", expected_writers=["oslo"], writer_timeout_ms=HOUR_MS)
    note(controller, "repaired", TEN - 3 * HOUR_MS, "oslo")
    note(controller, "repaired", TEN + HOUR_MS, "oslo")
    airflow.unpause("repaired")
    first = [f"2013-01-01T{hour}:00:00Z success 1" for hour in ("08", "09", "10")]
    assert eventually(partial(airflow.list_tries, "repaired", "load"), first)
    for hours in range(4):
        time = TEN - hours * HOUR_MS + 60_000
        report = {"rows": 1, "min_time": time, "max_time": time}
        controller.post("repaired", {"writer": "oslo", "late_rows": report})
    script = f"cd {tmp_path}\n{LOAD}{REPAIR}".replace("orders_hourly", "repaired")
    script = script.replace("orders ", "repaired ")
    airflow.run_until_unlocked("sh", "-c", script, NOTED_TIME_URL=controller.url)

    repeated_tries = [f"2013-01-01T{hour}:00:00Z success 2" for hour in ("08", "09", "10")]
    repaired_tries = ["2013-01-01T07:00:00Z success 1", *repeated_tries]
    assert eventually(partial(airflow.list_tries, "repaired", "load"), repaired_tries)
    assert (tmp_path / "repaired-to.txt").exists()
