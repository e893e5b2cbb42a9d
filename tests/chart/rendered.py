"""The chart of deploy/ as Helm renders it, and its containers as processes of this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
SMALL = ("--set=image=noted-time",)
ALL = (f"--values={Path(__file__).with_name('all.yaml')}",)

Object = dict[str, Any]


class HelmResult(NamedTuple):
    """How Helm ended, and what it printed."""

    status: int
    text: str


@dataclass(frozen=True)
class Chart:
    """The chart, by a Helm."""

    helm: Path

    def run(self, *words: str) -> HelmResult:
        """Run Helm to its end."""
        done = subprocess.run([self.helm, *words], capture_output=True, text=True, check=False)
        return HelmResult(done.returncode, done.stdout or done.stderr)

    def template(self, *values: str) -> HelmResult:
        """Render the release `noted-time` of the namespace `time`."""
        return self.run("template", "noted-time", str(CHART), "--namespace=time", *values)

    def objects(self, *values: str) -> list[Object]:
        """Return what Kubernetes would be given."""
        rendered = self.template(*values)
        assert rendered.status == 0, rendered.text
        return [each for each in yaml.safe_load_all(rendered.text) if each]


def select_kind(objects: list[Object], kind: str) -> list[Object]:
    """Return the objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Yield the labels and the specification of each pod."""
    for each in objects:
        if template := each.get("spec", {}).get("template"):
            yield template["metadata"]["labels"], template["spec"]


def build_environment(container: Object, pod: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a container, as Kubernetes would make it."""
    found: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "secretKeyRef" in source:
            value = secrets[source["secretKeyRef"]["name"]]
        elif "fieldRef" in source:
            assert source == {"fieldRef": {"fieldPath": "metadata.name"}}
            value = pod
        else:
            # only what stands before it is put in
            value = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], each["value"])
        found[each["name"]] = value
    return found
