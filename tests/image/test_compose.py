"""The ports, mounts and commands of deploy/compose.yaml."""

import re
import shutil
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from tests.chart.rendered import parse_command

pytestmark = pytest.mark.usefixtures("programs")  # in the suite of the image

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
OUR_SERVICES = {name: each for name, each in SERVICES.items() if each["image"] == "noted-time"}
CONTROLLERS = {name for name in SERVICES if name.startswith("controller")}


def run(*words: str | Path) -> tuple[int, str]:
    """Return the exit status and the output of a program."""
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    return process.returncode, process.stdout + process.stderr


def test_hadolint_accepts_the_dockerfile(programs: Path) -> None:
    assert run(programs / "hadolint", DEPLOY / "Dockerfile") == (0, "")


def test_compose_schema_accepts_the_file(programs: Path) -> None:
    """The checker includes the schema."""
    check = (programs / "check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    status, output = run(*check, COMPOSE)

    assert status == 0, output


def test_services_start_after_their_dependencies() -> None:
    """No service waits for an unknown one or for itself."""
    needs = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    order = [*TopologicalSorter(needs).static_order()]

    assert set(order) == SERVICES.keys()
    assert order.index("migrate") < order.index("controller-1") < order.index("observer")


def test_commands_of_our_services_parse() -> None:
    """They know their arguments, flags and variables."""
    shared_variables = {
        "NOTED_TIME_HEALTH_PORT"
    }  # of the observer and the relay, and `stream` has it, too
    parsed_options = {
        name: parse_command(service["command"], service["environment"].keys() - shared_variables)
        for name, service in OUR_SERVICES.items()
    }

    assert parsed_options == {
        "migrate": "migrate",
        "controller-1": "serve",
        "controller-2": "serve",
        "stream": "create",
        "observer": "timestamp",
        "relay": "kafka",
    }


def test_ports_are_published_on_the_loopback_only() -> None:
    """The database has no port."""
    for service in SERVICES.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    assert SERVICES["postgres"].get("ports", []) == []


def test_our_services_are_confined_and_all_logs_bounded() -> None:
    """Our services can write only to their volumes, and gain no capability."""
    confinement = {
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }
    log_bounds = {"options": {"max-size": "10m", "max-file": "3"}}

    for service in OUR_SERVICES.values():
        assert service.items() >= confinement.items()
    for service in SERVICES.values():
        assert service.get("logging") == log_bounds


def test_mounted_files_exist() -> None:
    """Docker would make an empty directory of a missing file."""
    mounted_files = []
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            if volume.startswith("."):
                mounted_files.append(DEPLOY / volume.split(":")[0])

    assert len(mounted_files) == 5
    for file in mounted_files:
        assert file.is_file()


def test_grafana_shows_the_board_of_the_services_prometheus() -> None:
    """The board is in the directory that Grafana reads."""
    grafana = SERVICES["grafana"]
    (source,) = yaml.safe_load((DEPLOY / "grafana/prometheus.yml").read_text())["datasources"]
    (boards,) = yaml.safe_load((DEPLOY / "grafana/boards.yml").read_text())["providers"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    (port,) = SERVICES["prometheus"]["ports"]

    assert source["url"] == f"http://prometheus:{port.split(':')[-1]}"
    assert Path(home).parent == Path(boards["options"]["path"])
    assert [volume for volume in grafana["volumes"] if home in volume] != []


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool, of Prometheus")
def test_prometheus_takes_its_settings_and_the_alerts(tmp_path: Path) -> None:
    """It scrapes every controller."""
    settings = shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(DEPLOY.parent / "docs/reference/alerts.yml", tmp_path)
    status, output = run("promtool", "check", "config", settings)

    scraped_names = set(re.findall(r"controller-\d(?=:)", Path(settings).read_text()))
    assert (status, scraped_names) == (0, CONTROLLERS), output


def test_clients_call_controllers_by_their_advertised_names() -> None:
    """A controller without tokens answers to addresses and to its advertised name only."""
    own_names = set()
    called_names = set()
    for service in OUR_SERVICES.values():
        environment = service["environment"]
        own_names.add(urlsplit(environment.get("NOTED_TIME_ADVERTISE", "")).hostname)
        for url in environment.get("NOTED_TIME_URL", "").split(","):
            called_names.add(urlsplit(url).hostname)

    assert called_names == own_names == {None, *CONTROLLERS}
