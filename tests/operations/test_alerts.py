"""The alert rules, by Prometheus itself: their timing, and what a controller in trouble raises."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.operations.prometheus import Prometheus
from tests.support.failing_database import fill_disk, move_database
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.usefixtures("long_polls"),  # they wait while alerts do
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="no prometheus: apt install prometheus",
    ),
]

RULES = Path(__file__).with_name("rules")
TIMEOUT_MS = 9000
"""A holder is named after 5 s, and reported after two thirds of its timeout."""


class Watched(NamedTuple):
    """A controller that a Prometheus scrapes."""

    controller: ServeProcess
    prometheus: Prometheus
    database: Path

    def note(self, **fields: object) -> int:
        """Send one note; returns the status of the answer."""
        url = f"{self.controller.url}/v1/streams/s/notes"
        return httpx.post(url, json={"notes": [fields]}, trust_env=False).status_code

    def total(self, metric: str) -> float:
        """Return the sum of a metric's samples now."""
        text = httpx.get(f"{self.controller.url}/metrics", trust_env=False).text
        return sum(samples(text, metric).values())


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A controller with the stream `s`, scraped once before anything happens there."""
    directory = tmp_path_factory.mktemp("controller")
    with ServeProcess(directory).ready() as controller:
        settings = {"mark_interval_ms": 0, "writer_timeout_ms": TIMEOUT_MS}
        httpx.put(f"{controller.url}/v1/streams/s", json=settings, trust_env=False)
        target = f"127.0.0.1:{controller.port}"
        with Prometheus(tmp_path_factory.mktemp("prometheus"), target) as prometheus:
            yield Watched(controller, prometheus.ready(), directory / "noted-time.db")


def test_alert_rules_pass_their_timing_tests() -> None:
    """With the default settings and a scrape every 15 s."""
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts.yml"],
        cwd=RULES,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_a_holder_is_reported_before_and_after_it_is_excluded(watched: Watched) -> None:
    """By its name, with stream and domain, while there is time left to mend it."""
    watched.note(writer="silent")
    watched.note(writer="quick", time=5)

    held = watched.prometheus.wait_for_alerts("NotedTimeWriterHolds")["NotedTimeWriterHolds"]
    excluded_then = watched.total("noted_time_excluded_total")
    excluded = 'alertname="NotedTimeWriterExcluded", stream="s", writer="silent"'
    watched.prometheus.wait_for(f'ALERTS{{{excluded}, alertstate="firing"}}')

    names = [held[name] for name in ("stream", "domain", "writer")]
    assert (names, excluded_then) == (["s", "default", "silent"], 0.0)


def test_refused_notes_are_reported(watched: Watched) -> None:
    """From the second one on: a producer that is refused continues to be refused."""
    watched.note(writer="mistyped", time=1, domain="defualt")
    watched.prometheus.wait_for('noted_time_notes_total{status="unknown_domain"} == 1')
    watched.note(writer="mistyped", time=2, domain="defualt")

    refused = watched.prometheus.wait_for_alerts("NotedTimeNotesRefused")["NotedTimeNotesRefused"]

    assert refused["status"] == "unknown_domain"


def test_rows_below_the_watermark_are_reported(watched: Watched) -> None:
    """With their stream and domain."""
    watched.note(writer="late", late={"rows": 3, "least": 1})

    broken = watched.prometheus.wait_for_alerts("NotedTimePromisesBroken")[
        "NotedTimePromisesBroken"
    ]

    assert (broken["stream"], broken["domain"]) == ("s", "default")


@pytest.mark.parametrize(
    ("trouble", "alerts"),
    [
        (fill_disk, ["NotedTimeCommitsFail"]),
        (move_database, ["NotedTimeNotReady", "NotedTimeNoOwner"]),
    ],
)
def test_a_controller_in_trouble_is_reported(
    watched: Watched,
    trouble: Callable[[ServeProcess, Path], AbstractContextManager[None]],
    alerts: list[str],
) -> None:
    """One whose disk is full, and one whose database is gone, while writers keep noting."""
    with trouble(watched.controller, watched.database):
        fired = watched.prometheus.wait_for_alerts(
            *alerts, meanwhile=lambda: watched.note(writer="busy")
        )

    assert list(fired) == alerts


def test_every_rule_can_be_evaluated(watched: Watched) -> None:
    """On what the controller really shows."""
    assert watched.prometheus.broken_rules() == []
