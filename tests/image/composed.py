"""deploy/compose.yaml as processes of this machine: its commands, its variables, its order."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml  # type: ignore[import-untyped]

from demo.trials.calls import Calls
from demo.trials.ports import free_port
from demo.trials.waiting import PATIENCE_S, wait_until
from tests.support.processes import environment

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
OURS = "noted-time"
PORT = 7464

Service = dict[str, Any]


def services() -> dict[str, Service]:
    """Return the services of the file, its variables at their defaults."""
    text = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", COMPOSE.read_text())
    found: dict[str, Service] = yaml.safe_load(text)["services"]
    return found


def in_order(found: Mapping[str, Service]) -> Iterator[str]:
    """Yield the services, each after those that it depends on."""
    waiting = dict(found)
    while waiting:
        ready = [n for n, each in waiting.items() if waiting.keys().isdisjoint(_before(each))]
        assert ready, f"these wait for each other: {list(waiting)}"
        for name in ready:
            del waiting[name]
            yield name


def _before(service: Service) -> Mapping[str, Any]:
    """Return what a service depends on."""
    return dict(service.get("depends_on", {}))


class Composed:
    """The services that run our image, side by side; leaving the block ends them."""

    def __init__(self, directory: Path, database: str, brokers: str, token: str = "") -> None:
        """Start nothing yet; `database` and `brokers` are where the others would be."""
        self._token = token
        self._directory = directory
        self._stack = ExitStack()
        self._database = database
        found = services()
        self._services = {name: each for name, each in found.items() if each["image"] == OURS}
        serving = [name for name in self._services if name.startswith("controller")]
        self.ports = {name: free_port() for name in serving}
        inside = found["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        self._here = {re.findall(r"INSIDE://([\w.:]+)", inside)[0]: brokers} | {
            f"{name}:{PORT}": f"127.0.0.1:{port}" for name, port in self.ports.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def controllers(self) -> dict[str, Calls]:
        """The controllers by name."""
        here = {name: f"http://127.0.0.1:{port}" for name, port in self.ports.items()}
        return {name: Calls(url, self._token or None) for name, url in here.items()}

    def up(self) -> None:
        """Start all in order: each is there, or has ended well, before what waits for it."""
        ends = {
            name
            for each in self._services.values()
            for name, how in _before(each).items()
            if how["condition"] == "service_completed_successfully"
        }
        for name in in_order(self._services | {name: {} for name in self._elsewhere()}):
            if name in self._services:
                self._start(name, ends=name in ends)

    def _elsewhere(self) -> set[str]:
        """Return the services that others run."""
        return {name for each in self._services.values() for name in _before(each)} - {
            *self._services
        }

    def _start(self, name: str, *, ends: bool) -> None:
        words = [self._local(word) for word in self._services[name]["command"]]
        given = {k: self._local(v) for k, v in self._services[name]["environment"].items()}
        if "NOTED_TIME_DATABASE" in given:
            given["NOTED_TIME_DATABASE"] = self._database
        if "NOTED_TIME_TOKEN" in given:
            given["NOTED_TIME_TOKEN"] = self._token
        if "NOTED_TIME_HEALTH_PORT" in given:  # each container has this port for itself
            given["NOTED_TIME_HEALTH_PORT"] = str(free_port())
        if name in self.ports:
            given |= {"NOTED_TIME_HOST": "127.0.0.1", "NOTED_TIME_PORT": str(self.ports[name])}
        log = self._stack.enter_context((self._directory / f"{name}.log").open("wb"))
        command = [sys.executable, "-m", "noted_time", *words]
        run = subprocess.Popen(command, stdout=log, stderr=log, env=environment(**given))
        self._stack.callback(run.wait, PATIENCE_S)
        self._stack.callback(run.kill)
        if ends:
            assert run.wait(PATIENCE_S) == 0, self.read_log(name)
        elif name in self.ports:
            wait_until(lambda: run.poll() is not None or '"serving"' in self.read_log(name))
            assert run.poll() is None, self.read_log(name)

    def _local(self, text: str) -> str:
        """Return what a text of the file is on this machine, where all names are 127.0.0.1."""
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text

    def read_log(self, name: str) -> str:
        """Return what a service has printed."""
        return (self._directory / f"{name}.log").read_text()
