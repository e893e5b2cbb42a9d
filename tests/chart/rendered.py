"""The chart of deploy/, rendered by Helm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from noted_time_cli.app import app

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
SMALL = ("--set=image=noted-time",)
ALL = (f"--values={Path(__file__).with_name('all.yaml')}",)

Object = dict[str, Any]


class HelmResult(NamedTuple):
    """The exit status of Helm, and its output."""

    status: int
    text: str


@dataclass(frozen=True)
class Chart:
    """The chart, rendered by a Helm program."""

    helm: Path

    def run(self, *words: str) -> HelmResult:
        process = subprocess.run([self.helm, *words], capture_output=True, text=True, check=False)
        return HelmResult(process.returncode, process.stdout or process.stderr)

    def template(self, *values: str) -> HelmResult:
        """Render the release `noted-time` of the namespace `time`."""
        return self.run("template", "noted-time", str(CHART), "--namespace=time", *values)

    def objects(self, *values: str) -> list[Object]:
        """Return the objects that Kubernetes would get."""
        result = self.template(*values)
        assert result.status == 0, result.text
        return [manifest for manifest in yaml.safe_load_all(result.text) if manifest]


def select_kind(objects: list[Object], kind: str) -> list[Object]:
    return [manifest for manifest in objects if manifest["kind"] == kind]


VOLUME_KINDS = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")


def find_unrestricted(pod: Object) -> list[str]:
    """Return what the Pod Security Standard `restricted` forbids in a pod.

    >>> find_unrestricted({"containers": [{"name": "a"}]})[:2]
    ['a: may escalate its privileges', 'a: keeps capabilities']
    """
    faults = [f"the pod has {field}" for field in HOST_FIELDS if pod.get(field)]
    for volume in pod.get("volumes", []):
        faults += [f"the volume {kind}" for kind in volume.keys() - VOLUME_KINDS - {"name"}]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        faults += [f"{container['name']}: {fault}" for fault in _find_faults(pod, container)]
    return faults


def _find_faults(pod: Object, container: Object) -> Iterator[str]:
    own_context = container.get("securityContext", {})
    context = pod.get("securityContext", {}) | own_context
    capabilities = own_context.get("capabilities", {})
    if own_context.get("allowPrivilegeEscalation") is not False or own_context.get("privileged"):
        yield "may escalate its privileges"
    if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
        yield "keeps capabilities"
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield "has a port of the host"


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Yield the labels and the specification of each pod."""
    for manifest in objects:
        if template := manifest.get("spec", {}).get("template"):
            yield template["metadata"]["labels"], template["spec"]


def parse_command(words: list[str], variables: Iterable[str]) -> str:
    """Parse a command line as `noted-time` does, and return the command's name.

    Fails if the command does not know one of our variables.
    """
    group: Any = get_command(app)
    while hasattr(group, "commands"):
        name, *words = words
        group = group.commands[name]
    known_variables = {parameter.envvar for parameter in group.params}
    assert {
        variable for variable in variables if variable.startswith("NOTED_TIME_")
    } <= known_variables
    return str(group.make_context(group.name, words).info_name)
