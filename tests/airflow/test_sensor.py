"""The arguments of a sensor, in a process of Airflow's Python."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.airflow import install
from tests.support.suites import find_programs
from tools.trials.calls import TEN

PROGRAM = """
import json, sys
from datetime import datetime, timedelta, timezone
import pendulum
from noted_time_airflow import sensor as module
from noted_time_airflow.sensor import NotedTimeSensor

def tried(given):
    module.AIRFLOW_VERSION = tuple(given.pop("airflow", (3, 3)))
    try:
        sensor = NotedTimeSensor(task_id="complete", **{"dataset": "s"} | given)
        sensor.render_template_fields({"site": "oslo"})
        condition = sensor._build_condition()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [condition.dataset, condition.complete_to, condition.require, sensor.deferrable]

ten = datetime(2013, 1, 1, 11, tzinfo=timezone(timedelta(hours=1)))
times = {"datetime": ten, "pendulum": pendulum.instance(ten), "rendered": str(ten)}
given = [*({"complete_to": each} for each in times.values()), *json.load(sys.stdin)]
print(json.dumps([tried(each) for each in given]))
"""

ALL = ["s", TEN, "all", True]
NO_ZONE = (
    "Unreadable: '2013-01-01T10:00:00' has no zone: use an integer, or ISO 8601 with a zone, for "
    "example 2013-01-01T10:00Z"
)
GIVEN: list[tuple[dict[str, object], object]] = [
    ({"complete_to": TEN}, ALL),
    ({"complete_to": f" {TEN} "}, ALL),
    ({"complete_to": "2013-01-01T10:00:00+00:00"}, ALL),
    ({"complete_to": TEN, "deferrable": False}, ["s", TEN, "all", False]),
    ({"complete_to": TEN, "require": ["lima"]}, ["s", TEN, ["lima"], True]),
    ({"complete_to": TEN, "require": "known"}, ["s", TEN, "known", True]),
    ({"complete_to": TEN, "dataset": "delta:{{ site }}"}, ["delta:oslo", *ALL[1:]]),
    ({"complete_to": TEN, "partition_key": "ten"}, ALL),
    ({"complete_to": "2013-01-01T10:00:00"}, NO_ZONE),
    ({"missing": "ignore"}, "ValueError: missing='ignore' is none of fail, wait, warn, accept"),
    (
        {"partition_key": "ten", "airflow": [3, 2]},
        "ValueError: partition_key needs Airflow 3.3 or newer: upgrade Airflow, or leave it out",
    ),
    ({"require": "lima"}, 'ValueError: require is "all", "known" or a list of writers: [\'lima\']'),
]


@pytest.fixture
def results(tmp_path: Path) -> list[object]:
    """Return the outcome of each case, with sensors that are deferrable by Airflow's option."""
    python = find_programs("airflow") / "python"
    install(tmp_path / "installed")
    process = subprocess.run(
        [str(python), "-c", PROGRAM],
        input=json.dumps([description for description, _ in GIVEN]),
        env={
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
            "PYTHONPATH": str(tmp_path / "installed"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(process.stdout.splitlines()[-1]))


def test_sensor_takes_any_time_form_and_refuses_bad_arguments(results: list[object]) -> None:
    """The errors come when the DAG is parsed."""
    assert results == [ALL] * 3 + [expected for _, expected in GIVEN]
