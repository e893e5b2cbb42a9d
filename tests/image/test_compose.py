"""deploy/compose.yaml: what it publishes, what it mounts, and that its commands work together."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from demo.trials.kafka import Broker
from demo.trials.postgres import Server
from demo.trials.waiting import wait_until
from tests.image.composed import COMPOSE, DEPLOY, Composed, in_order, services
from tests.support.processes import run_command

pytestmark = pytest.mark.usefixtures("programs")  # in the suite of the image

NOTED = "departures.noted"


def run(*words: str | Path) -> tuple[int, str]:
    """Return the exit status and the output of a program."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_hadolint_accepts_the_dockerfile(programs: Path) -> None:
    """Without exceptions."""
    assert run(programs / "hadolint", DEPLOY / "Dockerfile") == (0, "")


def test_compose_schema_accepts_the_file(programs: Path) -> None:
    """Which the checker brings with it."""
    check = (programs / "check-jsonschema", "--builtin-schema", "vendor.compose-spec")

    status, told = run(*check, COMPOSE)

    assert status == 0, told


def test_services_start_after_their_dependencies() -> None:
    """No service waits for one that is not there, or for itself."""
    order = [*in_order(services())]

    assert order.index("migrate") < order.index("controller-1") < order.index("observer")


def test_ports_are_published_on_the_loopback_only() -> None:
    """Those of the database on no address."""
    ports = {name: each.get("ports", []) for name, each in services().items()}

    assert [port for each in ports.values() for port in each if port[:10] != "127.0.0.1:"] == []
    assert ports["postgres"] == []


def test_our_containers_can_write_only_their_volume() -> None:
    """Nor gain a capability."""
    kept = ("read_only", "cap_drop", "security_opt")
    ours = [each for each in services().values() if each["image"] == "noted-time"]

    found = {json.dumps([each.get(name) for name in kept]) for each in ours}
    assert found == {'[true, ["ALL"], ["no-new-privileges:true"]]'}


def test_log_of_each_container_is_bounded() -> None:
    """Docker keeps it for as long as the container is there."""
    found = {json.dumps(each.get("logging")) for each in services().values()}

    assert found == {'{"options": {"max-size": "10m", "max-file": "3"}}'}


def test_every_file_that_is_mounted_is_there() -> None:
    """Docker would make an empty directory of one that is missing."""
    mounted = [
        DEPLOY / volume.split(":")[0]
        for each in services().values()
        for volume in each.get("volumes", [])
        if volume.startswith(".")
    ]

    assert (len(mounted), [file for file in mounted if not file.is_file()]) == (5, [])


def test_grafana_shows_the_board_of_the_services_prometheus() -> None:
    """The board asks whatever Prometheus there is, in the directory that is provisioned."""
    grafana = services()["grafana"]
    (source,) = yaml.safe_load((DEPLOY / "grafana/prometheus.yml").read_text())["datasources"]
    (boards,) = yaml.safe_load((DEPLOY / "grafana/boards.yml").read_text())["providers"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    (port,) = services()["prometheus"]["ports"]

    assert source["url"] == f"http://prometheus:{port.split(':')[-1]}"
    assert Path(home).parent == Path(boards["options"]["path"])
    assert [volume for volume in grafana["volumes"] if home in volume] != []


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool, of Prometheus")
def test_prometheus_takes_its_settings_and_the_alerts(tmp_path: Path) -> None:
    """In the directory in which they are mounted; it scrapes every controller."""
    settings = shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(DEPLOY.parent / "docs/reference/alerts.yml", tmp_path)

    status, told = run("promtool", "check", "config", settings)

    scraped = set(re.findall(r"controller-\d(?=:)", Path(settings).read_text()))
    assert (status, scraped) == (0, {n for n in services() if n.startswith("controller")}), told


def test_clients_call_controllers_by_their_advertised_names() -> None:
    """Without a token they answer to addresses, and to what they advertise."""
    environments = [each.get("environment", {}) for each in services().values()]
    own = {urlsplit(each.get("NOTED_TIME_ADVERTISE", "")).hostname for each in environments}
    urls = ",".join(each.get("NOTED_TIME_URL", "") for each in environments).split(",")

    called = {urlsplit(url).hostname for url in urls}
    assert called == own == {None, "controller-1", "controller-2"}


@pytest.mark.acceptance
def test_record_is_marked_at_both_controllers_and_relayed(
    tmp_path: Path, server: Server, broker: Broker
) -> None:
    """By the commands of the file, with a real database and a real broker beside them."""
    words = services()["topic"]["command"]
    options = dict(word[2:].split("=") for word in words if "=" in word)
    broker.create(options["topic"], int(options["partitions"]))
    database = server.make_database()
    made = run_command("token", "create", "--scope", "admin", "--database", database, cwd=tmp_path)
    with Composed(tmp_path, database, broker.address, made.stdout.strip()) as composed:
        composed.up()
        now = time.time_ns() // 1_000_000
        broker.send(options["topic"], [(0, "EWR", now), (1, "JFK", now)])
        wait_until(lambda: marked(composed, now) and NOTED in broker.topics())
        wait_until(lambda: relayed(broker))
        lowers = {name: lower(each) for name, each in composed.controllers.items()}
        last = relayed(broker)[-1]

    assert lowers == dict.fromkeys(composed.ports, now - 5_000)
    assert (last["lower"], last["cut"]) == (now - 5_000, {"0": 1, "1": 1})


def marked(composed: Composed, now: int) -> bool:
    """Whether both controllers know a mark of that time, less the delay."""
    return all(lower(each) == now - 5_000 for each in composed.controllers.values())


def lower(controller: Any) -> int | None:  # noqa: ANN401 - of Calls
    """Return the watermark of the stream, if there is one."""
    mark = controller.get("departures")["marks"]["default"]
    return None if mark is None else int(mark["lower"])


def relayed(broker: Broker) -> list[dict[str, Any]]:
    """Return the marks in the noted topic."""
    return [json.loads(each.value) for each in broker.records(NOTED) if each.value]
