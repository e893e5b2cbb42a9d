"""Debian's Prometheus with the rules and the scrape job of the pages, against a real controller."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import yaml  # type: ignore[import-untyped]

from demo.trials.ports import free_port
from demo.trials.waiting import PATIENCE_S
from tests.operations.handbook import ALERTS, MONITORING

FASTER = 15
"""The pages scrape every 15 s, a test every second; what the rules look back on shrinks alike."""


def read_scrape_job() -> dict[str, Any]:
    """Return the scrape job of the operations page."""
    block = re.search(
        r"^```yaml\n(scrape_configs:.*?)^```$", MONITORING.read_text(), re.MULTILINE | re.DOTALL
    )
    assert block is not None
    (job,) = yaml.safe_load(block[1])["scrape_configs"]
    return dict(job)


def shorten_rules() -> dict[str, Any]:
    """Return the alert rules with each range and each `for` a fifteenth of what it was."""
    rules: dict[str, Any] = yaml.safe_load(ALERTS.read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["expr"] = re.sub(
                r"\[(.*?)\]", lambda found: f"[{_shorten(found[1])}]", rule["expr"]
            )
            if "for" in rule:
                rule["for"] = _shorten(rule["for"])
    return rules


def _shorten(duration: str) -> str:
    seconds = int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]
    return f"{seconds // FASTER}s"


class Prometheus:
    """A Prometheus that scrapes one controller; leaving the block ends it."""

    def __init__(self, directory: Path, target: str) -> None:
        """Start it in a directory of its own; `target` is the host and port of the controller."""
        program = shutil.which("prometheus")
        assert program
        job = read_scrape_job() | {"scheme": "http", "static_configs": [{"targets": [target]}]}
        job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
        del job["authorization"], job["tls_config"]
        (directory / "rules.yml").write_text(yaml.safe_dump(shorten_rules()))
        config = {"rule_files": ["rules.yml"], "scrape_configs": [job]}
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = directory / "log"
        command = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command.append(f"--web.listen-address=127.0.0.1:{port}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)

    def ready(self) -> Self:
        """Wait for its first scrape; raises `AssertionError` with its log if there is none."""
        self.wait_for("up == 1")
        return self

    def wait_for(self, query: str) -> None:
        """Wait until a query has a result."""
        self._wait(lambda: bool(self._ask("query", query=query)["result"]), query)

    def wait_for_alerts(
        self, *names: str, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, dict[str, str]]:
        """Wait until each alert fires, calling `meanwhile`; returns the labels of one of each."""
        found: dict[str, dict[str, str]] = {}

        def all_fire() -> bool:
            meanwhile()
            for alert in self._ask("alerts")["alerts"]:
                if alert["state"] == "firing":
                    found.setdefault(alert["labels"]["alertname"], alert["labels"])
            return found.keys() >= set(names)

        self._wait(all_fire, " and ".join(names))
        return {name: found[name] for name in names}

    def broken_rules(self) -> list[str]:
        """Return the names of the rules that could not be evaluated."""
        groups = self._ask("rules")["groups"]
        return [
            rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"
        ]

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/api/v1/{what}", params=parameters, trust_env=False)
        return dict(answer.raise_for_status().json()["data"])

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"waited for {what}\n{self._log.read_text()}"
            try:
                if condition():
                    return
            except httpx.HTTPError:
                pass  # it does not listen yet, or is not ready
            time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # what it stored is of no use any more
        self._process.wait()
