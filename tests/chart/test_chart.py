"""The Helm chart of deploy/: what Helm, Kubernetes' schemas and the operator's types say of it."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from demo.trials.calls import Calls
from demo.trials.kafka import Broker
from demo.trials.ports import free_port
from demo.trials.postgres import Server
from demo.trials.waiting import wait_until
from noted_time_cli.app import app
from tests.chart.rendered import (
    ALL,
    CHART,
    SMALL,
    Chart,
    Object,
    build_environment,
    pods,
    select_kind,
)
from tests.support.processes import ServeProcess, run_command

REPOSITORY = "https://git.example/noted-time/blob/main"
MONITORING = {"PrometheusRule", "ServiceMonitor"}
KUBERNETES = "1.37"

EACH = pytest.mark.parametrize("values", [SMALL, ALL], ids=["small", "all"])


@EACH
def test_lint_finds_no_fault(chart: Chart, values: tuple[str, ...]) -> None:
    """A warning is a fault, too."""
    done = chart.run("lint", "--strict", "--quiet", str(CHART), *values)

    assert done.status == 0, done.text


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (SMALL, "Service Service StatefulSet"),
        (
            ALL,
            (
                "Deployment Deployment NetworkPolicy PodDisruptionBudget PrometheusRule "
                "Service Service ServiceMonitor StatefulSet"
            ),
        ),
    ],
)
def test_chart_makes_the_objects_of_its_values(
    chart: Chart, values: tuple[str, ...], kinds: str
) -> None:
    """And never a Secret."""
    assert sorted(each["kind"] for each in chart.objects(*values)) == kinds.split()


def test_chart_renders_the_reviewed_objects(chart: Chart) -> None:
    """A change of `rendered.yaml` shows what an upgrade changes in a cluster."""
    rendered = chart.template(*ALL, "--set=monitoring.prometheusRule=false")

    assert rendered == (0, (CHART.parents[1] / "tests/chart/rendered.yaml").read_text())


def check_with_kubernetes(programs: Path, directory: Path, objects: list[Object]) -> list[str]:
    """Return what is wrong with objects, by Kubernetes' schemas; a field they lack is."""
    file = directory / "objects.yaml"
    file.write_text(yaml.safe_dump_all(each for each in objects if each["kind"] not in MONITORING))
    checker = (programs / "kubernetes-validate", "--strict", "--quiet", "-k", KUBERNETES)
    done = subprocess.run([*checker, file], capture_output=True, text=True, check=False)
    return [done.stdout + done.stderr] if done.returncode or done.stderr else []


def check_with_operator(strict: Path, objects: list[Object]) -> list[str]:
    """Return what is wrong with objects of the operator, by its types."""
    return [
        done.stdout
        for each in objects
        if each["kind"] in MONITORING
        for done in [
            subprocess.run(
                [strict, each["kind"]],
                input=yaml.safe_dump(each),
                capture_output=True,
                text=True,
                check=False,
            )
        ]
        if done.returncode
    ]


@EACH
def test_kubernetes_and_the_operator_know_every_field(
    chart: Chart, programs: Path, strict: Path, tmp_path: Path, values: tuple[str, ...]
) -> None:
    """By the schemas of the one, and the types of the other."""
    objects = chart.objects(*values)

    assert (
        check_with_kubernetes(programs, tmp_path, objects),
        check_with_operator(strict, objects),
    ) == ([], [])


def test_pod_may_do_no_more_than_it_needs(chart: Chart) -> None:
    """It is not root, writes to its volumes alone, and has no rights in the cluster.

    A Service called `noted-time` would otherwise set `NOTED_TIME_PORT` to a URL.
    """
    found = {
        json.dumps(
            [
                *(pod["enableServiceLinks"], pod["automountServiceAccountToken"]),
                *(pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]),
                pod["securityContext"]["seccompProfile"],
                container["securityContext"],
            ]
        )
        for _, pod in pods(chart.objects(*ALL))
        for container in [*pod.get("initContainers", []), *pod["containers"]]
    }
    context = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [json.loads(each) for each in found] == [
        [False, False, True, 10001, {"type": "RuntimeDefault"}, context]
    ]


def test_every_selector_finds_the_controllers_alone(chart: Chart) -> None:
    """Those of the Services and of the budget; the monitor finds one Service of the two."""
    objects = chart.objects(*ALL)
    (budget,) = select_kind(objects, "PodDisruptionBudget")
    (monitor,) = select_kind(objects, "ServiceMonitor")
    services = select_kind(objects, "Service")
    selectors = [each["spec"]["selector"] for each in services]
    selectors.append(budget["spec"]["selector"]["matchLabels"])
    scraped = monitor["spec"]["selector"]["matchLabels"]

    found = [
        [
            labels["app.kubernetes.io/component"]
            for labels, _ in pods(objects)
            if matches(labels, each)
        ]
        for each in selectors
    ]
    assert found == [["controller"]] * 3
    assert [
        (each["metadata"]["name"], each["metadata"]["labels"][monitor["spec"]["jobLabel"]])
        for each in services
        if matches(each["metadata"]["labels"], scraped)
    ] == [("noted-time-pods", "noted-time")]


def test_values_of_the_page_are_taken(chart: Chart, tmp_path: Path) -> None:
    """They are those of two controllers, an observer and a relay."""
    page = (CHART.parents[1] / "docs" / "guides" / "kubernetes.md").read_text()
    (block,) = re.findall(r"^```yaml\n(# values.yaml.*?)^```$", page, re.MULTILINE | re.DOTALL)
    values = tmp_path / "values.yaml"
    values.write_text(block)

    objects = chart.objects(f"--values={values}")

    assert [
        (each["metadata"]["name"], each["spec"]["replicas"])
        for each in objects
        if "replicas" in each["spec"]
    ] == [("noted-time-observer-flights", 1), ("noted-time-relay-flights", 1), ("noted-time", 2)]


def matches(labels: Object, wanted: Object) -> bool:
    """Whether the labels are those that a selector wants."""
    return labels.items() >= wanted.items()


def test_rules_are_those_of_the_reference(chart: Chart) -> None:
    """Word by word, templates included, but for the links to their remedies."""
    (rules,) = select_kind(chart.objects(*ALL), "PrometheusRule")

    alerts = CHART.parents[1] / "docs" / "reference" / "alerts.yml"
    linked = alerts.read_text().replace("runbook: ", f"runbook_url: {REPOSITORY}/")
    assert rules["spec"] == yaml.safe_load(linked)


def test_every_container_has_resources_and_its_authority(chart: Chart) -> None:
    """A quota refuses a pod without them; `migrate` reaches the database as `serve` does."""
    containers = [
        each
        for _, pod in pods(chart.objects(*ALL))
        for each in [*pod.get("initContainers", []), *pod["containers"]]
    ]

    assert all({"requests", "limits"} == each["resources"].keys() for each in containers)
    assert [
        each["name"]
        for each in containers
        if {"name": "PGSSLROOTCERT", "value": "/postgresql/ca.crt"} in each["env"]
        and any(mount["mountPath"] == "/postgresql" for mount in each["volumeMounts"])
    ] == ["migrate", "controller"]


OBSERVER = "observers[0].name=a,observers[0].topic=a,observers[0].tokenSecretName=t"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "at '': missing property 'image'"),
        ("replicas=2", "at '/postgresql': missing property 'secretName'"),
        ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
        ("replica=1", "at '': additional properties 'replica' not allowed"),
        ("postgresql.url=x", "at '/postgresql': additional properties 'url' not allowed"),
        ("volume.size=much", "at '/volume/size': 'much' does not match pattern"),
        ("tls.ownAuthority=true", "at '/tls': missing property 'secretName'"),
        ("monitoring.serviceMonitor=true", "at '/monitoring': missing property 'tokenSecretName'"),
        (
            "env.NOTED_TIME_DATABASE=postgresql://a",
            "at '/env': additional properties 'NOTED_TIME_DATABASE' not allowed",
        ),
        (
            f"{OBSERVER},observers[0].by=clock,observers[0].brokers=a:1",
            "at '/observers/0/by': value must be one of 'ingestion', 'timestamp'",
        ),
        (
            f"{OBSERVER},observers[0].by=ingestion,observers[0].brokers=kafka",
            "at '/observers/0/brokers': 'kafka' does not match pattern",
        ),
        ("relays[0].name=a", "at '/relays/0': missing properties 'brokers', 'topic'"),
    ],
)
def test_bad_value_is_refused_by_its_name(chart: Chart, given: str, sentence: str) -> None:
    """Before anything is rendered."""
    done = chart.template(*SMALL, f"--set={given}") if given else chart.template()

    assert (done.status, sentence in done.text) == (1, True), done.text


def parse(words: list[str]) -> str:
    """Parse a command line as `noted-time` would, and return the command's name."""
    group: Any = get_command(app)
    while hasattr(group, "commands"):
        name, *words = words
        group = group.commands[name]
    return str(group.make_context(group.name, words).info_name)


def test_chart_knows_all_observers() -> None:
    """Those of `noted-time observe kafka`."""
    kafka = get_command(app).commands["observe"].commands["kafka"]  # type: ignore[attr-defined]
    schema = json.loads((CHART / "values.schema.json").read_text())
    observer = schema["properties"]["observers"]["items"]["properties"]

    assert observer["by"]["enum"] == list(kafka.commands)


def test_commands_of_observers_and_relays_parse(chart: Chart) -> None:
    """With all arguments and flags; they call the controllers by what these advertise."""
    objects = chart.objects(*ALL)
    containers = [each["spec"]["template"]["spec"] for each in select_kind(objects, "Deployment")]
    called = [
        build_environment(each["containers"][0], "", {"observer": "nt_o", "relay": "nt_r"})
        for each in containers
    ]

    urls = ",".join(
        build_controller_environment(objects, number)["NOTED_TIME_ADVERTISE"] for number in (0, 1)
    )
    assert [parse(each["containers"][0]["args"]) for each in containers] == ["timestamp", "kafka"]
    assert [(each["NOTED_TIME_URL"], each["NOTED_TIME_TOKEN"]) for each in called] == [
        (urls, "nt_o"),
        (urls, "nt_r"),
    ]


def build_controller_environment(
    objects: list[Object], number: int, database: str = ""
) -> dict[str, str]:
    """Return the variables of a controller, whose command has to be `serve`."""
    (stateful,) = select_kind(objects, "StatefulSet")
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["serve"]
    pod = f"{stateful['metadata']['name']}-{number}"
    return build_environment(container, pod, {"database": database})


def localize(given: dict[str, str], volume: Path, port: int) -> dict[str, str]:
    """Return the variables for a process of this machine: other addresses, another directory."""
    database = given["NOTED_TIME_DATABASE"].replace("/data", str(volume))
    at = {"NOTED_TIME_HOST": "127.0.0.1", "NOTED_TIME_ADVERTISE": f"http://127.0.0.1:{port}"}
    return given | at | {"NOTED_TIME_DATABASE": database}


def start_controller(directory: Path, port: int, given: dict[str, str]) -> ServeProcess:
    """Start a controller, and wait until it serves."""
    return ServeProcess(directory, port=port, module="controller", is_forked=True, **given).ready()


def create_token(
    controller: ServeProcess, scope: str, directory: Path, given: dict[str, str]
) -> str:
    """Create a token as in the container, and return it once the controller knows it."""
    made = run_command("token", "create", "--scope", scope, cwd=directory, **given)
    calls = Calls(controller.url, made.stdout.strip())
    wait_until(lambda: calls.ask("GET", "/access").status_code == httpx.codes.OK)
    return str(calls.token)


def create_admin_token(controller: ServeProcess, directory: Path, given: dict[str, str]) -> int:
    """Create a token in the container, and use it; returns the status of a call before that."""
    before = controller.ask("GET", "/streams").status_code
    controller.token = create_token(controller, "admin", directory, given)
    return before


@pytest.mark.acceptance
def test_one_controller_takes_a_token_and_a_note_on_sqlite(chart: Chart, tmp_path: Path) -> None:
    """By the commands and variables of the containers; without a token it refuses every call."""
    objects = chart.objects(*SMALL)
    ((_, pod),) = pods(objects)
    port = free_port()
    given = localize(build_controller_environment(objects, 0), tmp_path, port)
    (first,) = pod["initContainers"]

    migrated = run_command(*first["args"], cwd=tmp_path, **given)
    with start_controller(tmp_path, port, given) as controller:
        before = create_admin_token(controller, tmp_path, given)
        controller.make("flights")
        controller.note("flights", 7, {"0": 3})
        lower = controller.lower("flights")

    kept = (tmp_path / "noted-time.db").exists()
    assert (migrated.returncode, before, lower, kept) == (0, 401, 7, True), migrated.stderr


@pytest.mark.acceptance
def test_observer_and_relay_need_only_the_rights_of_the_page(
    chart: Chart, broker: Broker, tmp_path: Path
) -> None:
    """`write` and `read`. Each looks once; the relay then makes the topic of the marks."""
    broker.create("charted", 1)
    broker.send("charted", [(0, "EWR", time.time_ns() // 1_000_000)])
    shared = {"name": "a", "brokers": broker.address, "topic": "charted", "options": ["--for=0s"]}
    observer = shared | {"by": "timestamp", "tokenSecretName": "observer"}
    observer["options"] = ["--delay=5s", "--for=0s"]
    values = {"observers": [observer], "relays": [shared | {"tokenSecretName": "relay"}]}
    given = [f"--set-json={name}={json.dumps(each)}" for name, each in values.items()]
    deployed = select_kind(chart.objects(*SMALL, *given), "Deployment")
    ended = []
    with ServeProcess(tmp_path, "--require-token").ready() as controller:
        create_admin_token(controller, tmp_path, {})
        controller.make("charted")
        for scope, each in zip(("write", "read"), deployed, strict=True):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            token = create_token(controller, scope, tmp_path, {})
            env = build_environment(container, "", dict.fromkeys(("observer", "relay"), token))
            env["NOTED_TIME_URL"] = controller.url
            done = run_command(*container["args"], cwd=tmp_path, **env)
            ended.append(done.returncode)

    assert (ended, "charted.noted" in broker.topics()) == ([0, 0], True)


@pytest.mark.acceptance
def test_two_controllers_share_a_stream_on_postgresql(
    chart: Chart, server: Server, tmp_path: Path
) -> None:
    """What is noted to one is read from the other, which forwards to what the first advertises."""
    objects = chart.objects(*SMALL, "--set=replicas=2,postgresql.secretName=database")
    database = server.make_database()
    ports = free_port(), free_port()
    given = [
        localize(build_controller_environment(objects, n, database), tmp_path, ports[n])
        for n in (0, 1)
    ]

    run_command("migrate", cwd=tmp_path, **given[0])
    with (
        start_controller(tmp_path, ports[0], given[0]) as one,
        start_controller(tmp_path, ports[1], given[1]) as other,
    ):
        create_admin_token(one, tmp_path, given[0])
        other.token = one.token
        wait_until(lambda: other.ask("GET", "/streams").status_code == httpx.codes.OK)
        one.make("flights")
        one.note("flights", 7, {"0": 3})
        lowers = one.lower("flights"), other.lower("flights")

    assert lowers == (7, 7)
