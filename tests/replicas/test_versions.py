"""The controllers of a database and their versions."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from controller.store.schema import SCHEMA_REVISION
from noted_time.values import find_zone_release
from tests.replicas.replica_processes import BUCKETS
from tests.support.processes import ServeProcess, run_command
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance
SHARE = {"buckets": BUCKETS // 2}
THIS = {
    "version": version("noted-time"),
    "revision": SCHEMA_REVISION,
    "zone_data": find_zone_release(),
}


def read_status(url: str, directory: Path) -> list[dict[str, Any]]:
    """Return the controllers that the command lists."""
    process = run_command("status", "--url", url, "--json", cwd=directory)
    assert process.returncode == 0, process.stderr
    controllers: list[dict[str, Any]] = json.loads(process.stdout)["controllers"]
    return controllers


def test_status_shows_each_controller_and_its_version(
    a: ServeProcess, b: ServeProcess, tmp_path: Path
) -> None:
    """A killed controller is not listed once the server has ended its session."""
    controllers = read_status(a.url, tmp_path)
    times = [controller.pop("connected_at") for controller in controllers]
    b.kill()

    assert controllers == [{"url": url} | THIS | SHARE for url in sorted([a.url, b.url])]
    assert all(isinstance(time, int) for time in times)
    wait_until(
        lambda: [controller["url"] for controller in read_status(a.url, tmp_path)] == [a.url]
    )


def test_unsafe_settings_are_shown(a: ServeProcess, tmp_path: Path) -> None:
    """The log, `status` and `doctor` show the same sentence."""
    url = a.ready().url
    (risk,) = (line["risk"] for line in a.log() if line["event"] == "commits_may_be_lost")
    warnings = run_command("status", "--url", url, cwd=tmp_path).stderr
    examination = json.loads(run_command("doctor", "--url", url, "--json", cwd=tmp_path).stdout)

    findings = [verdict for verdict in examination["verdicts"] if verdict["check"] == "database"]
    assert warnings == f"{risk}\n"
    assert [f"{finding['fact']}: {finding['remedy']}" for finding in findings] == [risk]


def test_single_controller_lists_itself(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as alone:
        url = alone.ready().url
        lines = run_command("status", "--url", url, cwd=tmp_path).stdout.splitlines()

    assert [line.split("\t") for line in lines] == [
        ["controller", "version", "zone data", "schema", "since", "buckets"],
        [url, version("noted-time"), find_zone_release(), SCHEMA_REVISION, "-", "1"],
    ]
