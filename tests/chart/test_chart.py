"""The Helm chart of deploy/, judged by Helm, Kubernetes' schemas and the Prometheus operator."""

import json
import re
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from noted_time_cli.app import app
from tests.chart.rendered import (
    ALL,
    CHART,
    SMALL,
    Chart,
    HelmResult,
    Object,
    find_unrestricted,
    parse_command,
    pods,
    select_kind,
)
from tests.support.processes import ServeProcess, run_command
from tools.trials.calls import Calls
from tools.trials.kafka import Broker
from tools.trials.waiting import wait_until

REPOSITORY = "https://git.example/noted-time/blob/main"
MONITORING = {"PrometheusRule", "ServiceMonitor"}
KUBERNETES = "1.37"

EACH = pytest.mark.parametrize("values", [SMALL, ALL], ids=["small", "all"])


@EACH
def test_lint_finds_no_fault(chart: Chart, values: tuple[str, ...]) -> None:
    """A warning is a fault, too."""
    result = chart.run("lint", "--strict", "--quiet", str(CHART), *values)

    assert result.status == 0, result.text


@pytest.mark.parametrize(
    ("values", "file"),
    [
        (SMALL, "rendered-small.yaml"),
        ((*ALL, "--set=monitoring.prometheusRule=false"), "rendered.yaml"),
    ],
)
def test_chart_renders_the_reviewed_objects(
    chart: Chart, values: tuple[str, ...], file: str
) -> None:
    """The difference of these files in a commit shows how an upgrade changes a cluster.

    Review a change of rights, selectors, limits and Secrets there.
    """
    assert chart.template(*values) == (0, Path(__file__).with_name(file).read_text())


def check_with_kubernetes(programs: Path, directory: Path, objects: list[Object]) -> str:
    """Return what Kubernetes' schemas refuse, such as an unknown field."""
    file = directory / "objects.yaml"
    file.write_text(
        yaml.safe_dump_all(manifest for manifest in objects if manifest["kind"] not in MONITORING)
    )
    checker = (programs / "kubernetes-validate", "--strict", "--quiet", "-k", KUBERNETES)
    process = subprocess.run([*checker, file], capture_output=True, text=True, check=False)
    return process.stdout + process.stderr if process.returncode else process.stderr


def check_with_operator(strict: Path, manifest: Object) -> str:
    """Return the errors of the operator's types in one of its objects."""
    process = subprocess.run(
        [strict, manifest["kind"]],
        input=yaml.safe_dump(manifest),
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout if process.returncode else ""


@EACH
def test_kubernetes_and_the_operator_know_every_field(
    chart: Chart, programs: Path, strict: Path, tmp_path: Path, values: tuple[str, ...]
) -> None:
    objects = chart.objects(*values)
    refusals = [
        check_with_operator(strict, manifest)
        for manifest in objects
        if manifest["kind"] in MONITORING
    ]

    assert not any([check_with_kubernetes(programs, tmp_path, objects), *refusals]), refusals


def read_backup_job() -> Object:
    """Return the CronJob of the page."""
    page = (CHART.parents[1] / "docs" / "guides" / "kubernetes.md").read_text()
    (block,) = re.findall(r"^```yaml\n(apiVersion.*?)^```$", page, re.MULTILINE | re.DOTALL)
    job: Object = yaml.safe_load(block)
    return job


@EACH
def test_pods_pass_the_restricted_standard(chart: Chart, values: tuple[str, ...]) -> None:
    """Each container has requests and a limit of memory, too."""
    deployed_pods = [pod for _, pod in pods(chart.objects(*values))]
    deployed_pods.append(read_backup_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    containers = [
        container
        for pod in deployed_pods
        for container in [*pod.get("initContainers", []), *pod["containers"]]
    ]
    unlimited_names = [
        container["name"]
        for container in containers
        if "limits" not in container.get("resources", {})
    ]

    assert ([find_unrestricted(pod) for pod in deployed_pods], unlimited_names) == (
        [[]] * len(deployed_pods),
        [],
    )


def test_kubernetes_knows_every_field_of_the_backup(programs: Path, tmp_path: Path) -> None:
    assert check_with_kubernetes(programs, tmp_path, [read_backup_job()]) == ""


def test_values_of_the_page_are_taken(chart: Chart, tmp_path: Path) -> None:
    """They ask for two controllers, an observer and a relay."""
    page = (CHART.parents[1] / "docs" / "guides" / "kubernetes.md").read_text()
    (block,) = re.findall(r"^```yaml\n(# values.yaml.*?)^```$", page, re.MULTILINE | re.DOTALL)
    values = tmp_path / "values.yaml"
    values.write_text(block)

    replicas = {
        manifest["metadata"]["name"]: manifest["spec"]["replicas"]
        for manifest in chart.objects(f"--values={values}")
        if "replicas" in manifest["spec"]
    }
    assert replicas == {
        "noted-time-observer-flights": 1,
        "noted-time-relay-flights": 1,
        "noted-time": 2,
    }


def test_rules_are_those_of_the_reference(chart: Chart) -> None:
    """Only the links to their remedies and the bound on memory differ."""
    (rules,) = select_kind(chart.objects(*ALL), "PrometheusRule")

    alerts = CHART.parents[1] / "docs" / "reference" / "alerts.yml"
    linked_text = (
        alerts.read_text()
        .replace("runbook: ", f"runbook_url: {REPOSITORY}/")
        .replace("1500e6", "3000000000")
    )
    assert rules["spec"] == yaml.safe_load(linked_text)


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
        (
            "postgresql.caSecretName=ca",
            "at '/postgresql': properties 'secretName' required, if 'caSecretName' exists",
        ),
        ("image=a@sha256:12", "at '/image': 'a@sha256:12' does not match pattern"),
    ],
)
def test_bad_value_is_refused_by_its_name(chart: Chart, given: str, sentence: str) -> None:
    result = chart.template(*SMALL, f"--set={given}") if given else chart.template()

    assert (result.status, sentence in result.text) == (1, True), result.text


def observe(name: str, topic: str, *options: str) -> Object:
    """Return an observer of the chart's values."""
    place = {"name": name, "topic": topic, "brokers": "kafka:9092"}
    return {**place, "by": "ingestion", "tokenSecretName": "t", "options": options}


def template_observers(chart: Chart, *observers: Object) -> HelmResult:
    return chart.template(*SMALL, f"--set-json=observers={json.dumps(observers)}")


def test_two_observers_or_relays_of_one_name_are_refused(chart: Chart) -> None:
    """Helm would apply only the later Deployment."""
    observers = template_observers(chart, observe("a", "one"), observe("a", "two"))
    relay = {"name": "b", "brokers": "kafka:9092", "topic": "one", "tokenSecretName": "t"}
    relays = chart.template(*SMALL, f"--set-json=relays={json.dumps([relay, relay])}")

    sentence = "two have the name {}, and a Deployment is named by it: give each its own name"
    assert (observers.status, relays.status) == (1, 1)
    assert "observers: " + sentence.format('"a"') in observers.text, observers.text
    assert "relays: " + sentence.format('"b"') in relays.text, relays.text


def test_observers_that_would_fence_each_other_are_refused(chart: Chart) -> None:
    """They note for one stream under one name, which is `observer` without an option."""
    pairs = [
        (observe("a", "one"), observe("b", "one", "--delay", "5m")),
        (observe("a", "one", "--stream=s"), observe("b", "two", "--stream", "s")),
        (observe("a", "one", "--writer", "w"), observe("b", "one", "--writer=w")),
    ]
    results = [template_observers(chart, *pair) for pair in pairs]

    sentence = '"a" and "b" both note as the writer "{}" of the stream "{}"'
    expected = [
        sentence.format(*name_and_topic)
        for name_and_topic in (("observer", "one"), ("observer", "s"), ("w", "one"))
    ]
    assert [result.status for result in results] == [1, 1, 1]
    assert all(words in result.text for words, result in zip(expected, results, strict=True)), (
        results
    )


def test_observers_under_different_names_are_taken(chart: Chart) -> None:
    result = template_observers(
        chart,
        observe("a", "one"),
        observe("b", "two"),
        observe("c", "one", "--writer", "other"),
        observe("d", "one", "--stream=three"),
    )

    assert result.status == 0, result.text


def test_controller_serves_on_before_it_stops(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause comes before the 30 s that the process has to stop. Every image has Python."""
    (controller,) = select_kind(chart.objects(*SMALL), "StatefulSet")
    pod = controller["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    *program, code = container["lifecycle"]["preStop"]["exec"]["command"]
    pauses_s: list[int] = []
    monkeypatch.setattr(time, "sleep", pauses_s.append)
    exec(code, {})  # noqa: S102 - the chart's program

    assert (program, pauses_s) == (["python", "-c"], [pod["terminationGracePeriodSeconds"] - 30])


def test_image_is_taken_by_its_digest(chart: Chart) -> None:
    image = f"registry.example/noted-time@sha256:{'0a' * 32}"
    images = {
        container["image"]
        for _, pod in pods(chart.objects(f"--set=image={image}"))
        for container in [*pod["initContainers"], *pod["containers"]]
    }

    assert images == {image}


def test_chart_knows_all_observers() -> None:
    kafka = get_command(app).commands["observe"].commands["kafka"]  # type: ignore[attr-defined]
    schema = json.loads((CHART / "values.schema.json").read_text())
    observer = schema["properties"]["observers"]["items"]["properties"]

    assert sorted(observer["by"]["enum"]) == sorted(kafka.commands)


def test_commands_of_all_containers_parse(chart: Chart) -> None:
    """They know their arguments, flags and variables."""
    containers = [
        container
        for _, pod in pods(chart.objects(*ALL))
        for container in [*pod.get("initContainers", []), *pod["containers"]]
    ]
    names = [
        parse_command(container["args"], [variable["name"] for variable in container["env"]])
        for container in containers
    ]

    assert names == ["timestamp", "kafka", "migrate", "serve"]


def create_token(controller: ServeProcess, scope: str, directory: Path) -> str:
    """Create a token in the controller's database, and wait until the controller knows it."""
    process = run_command("token", "create", "--scope", scope, cwd=directory)
    calls = Calls(controller.url, process.stdout.strip())
    wait_until(lambda: calls.ask("GET", "/access").status_code == httpx.codes.OK)
    return str(calls.token)


@pytest.mark.acceptance
def test_observer_and_relay_need_only_the_rights_of_the_page(
    chart: Chart, broker: Broker, tmp_path: Path
) -> None:
    """The observer needs `write` and the relay `read`. Each polls the topic once."""
    broker.create("charted", 1)
    broker.send("charted", [(0, "EWR", time.time_ns() // 1_000_000)])
    shared_values = {
        "name": "a",
        "brokers": broker.address,
        "topic": "charted",
        "options": ["--for=0s"],
    }
    observer = shared_values | {"by": "timestamp", "tokenSecretName": "observer"}
    observer["options"] = ["--delay=5s", "--for=0s"]
    values = {"observers": [observer], "relays": [shared_values | {"tokenSecretName": "relay"}]}
    options = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    deployments = select_kind(chart.objects(*SMALL, *options), "Deployment")
    statuses = []
    with ServeProcess(tmp_path, "--require-token").ready() as controller:
        controller.token = create_token(controller, "admin", tmp_path)
        controller.make("charted")
        for scope, deployment in zip(("write", "read"), deployments, strict=True):
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            token = create_token(controller, scope, tmp_path)
            env = {"NOTED_TIME_URL": controller.url, "NOTED_TIME_TOKEN": token}
            process = run_command(*container["args"], cwd=tmp_path, **env)
            statuses.append(process.returncode)

    assert (statuses, "charted.noted" in broker.topics()) == ([0, 0], True)
