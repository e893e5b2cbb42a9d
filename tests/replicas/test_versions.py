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
    done = run_command("status", "--url", url, "--json", cwd=directory)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["controllers"]
    return found


def test_status_shows_each_controller_and_its_version(
    a: ServeProcess, b: ServeProcess, tmp_path: Path
) -> None:
    """A killed controller is not listed once the server has ended its session."""
    said = read_status(a.url, tmp_path)
    times = [each.pop("connected_at") for each in said]
    b.kill()

    assert said == [{"url": url} | THIS | SHARE for url in sorted([a.url, b.url])]
    assert all(isinstance(each, int) for each in times)
    wait_until(lambda: [each["url"] for each in read_status(a.url, tmp_path)] == [a.url])


def test_unsafe_settings_are_shown(a: ServeProcess, tmp_path: Path) -> None:
    """The log, `status` and `doctor` show the same sentence."""
    url = a.ready().url
    (risk,) = (each["risk"] for each in a.log() if each["event"] == "commits_may_be_lost")
    printed = run_command("status", "--url", url, cwd=tmp_path).stderr
    examined = json.loads(run_command("doctor", "--url", url, "--json", cwd=tmp_path).stdout)

    found = [each for each in examined["verdicts"] if each["check"] == "database"]
    assert printed == f"{risk}\n"
    assert [f"{each['fact']}: {each['remedy']}" for each in found] == [risk]


def test_single_controller_lists_itself(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as alone:
        url = alone.ready().url
        printed = run_command("status", "--url", url, cwd=tmp_path).stdout.splitlines()

    assert [line.split("\t") for line in printed] == [
        ["controller", "version", "zone data", "schema", "since", "buckets"],
        [url, version("noted-time"), find_zone_release(), SCHEMA_REVISION, "-", "1"],
    ]
