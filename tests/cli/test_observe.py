"""`noted-time observe`, against a real controller and a file log."""

import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tests.cli.conftest import Said, observed
from tests.support.processes import environment
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, eventually
from writer_client import SegmentLogWriter
from writer_client.observe_command import app


@pytest.fixture
def stream(served: Served) -> str:
    """Make a stream with a domain for each kind of observer."""
    name = uuid4().hex
    served.create(name, domains=["default", "ingestion"], max_time_ahead_ms=None)
    return name


@pytest.fixture
def root(tmp_path: Path, stream: str) -> Path:
    """Make a log of two segments; the second is behind."""
    for segment, times in ((0, [1000, 900]), (1, [400])):
        log = SegmentLogWriter(tmp_path, stream, segments=[segment], event_time="departure")
        log.append([{"departure": time} for time in times])
    return tmp_path


def observe(served: Served, *words: object) -> Said:
    """Run the command to its end."""
    return observed(served, "log", *words)


def marks(served: Served, stream: str, domain: str) -> list[tuple[int, dict[str, int]]]:
    """Return lower and cut of each mark."""
    answer = served.call("GET", f"/{stream}/marks?domain={domain}")
    return [(mark["lower"], mark["cut"]) for mark in answer["marks"]]


@pytest.mark.parametrize("name", ["log", "kafka"])
def test_help_has_an_example_that_parses(name: str) -> None:
    """As that of every other command."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    command = group.commands[name]
    example = (command.help or "").partition("Try it:")[2].split()

    assert example[:3] == ["noted-time", "observe", name]
    command.make_context(name, example[3:])


def test_one_look_by_ingestion_makes_a_mark(served: Served, stream: str, root: Path) -> None:
    """Everything in the log; the other domain is left alone."""
    said = observe(served, root, stream, "--for", "0s")

    assert said == Said(0, f"observer observes {stream}\n", "")
    assert [cut for _, cut in marks(served, stream, "ingestion")] == [{"0": 2, "1": 1}]
    assert marks(served, stream, "default") == []


def test_one_look_by_event_time_makes_a_mark(served: Served, stream: str, root: Path) -> None:
    """At the newest time of the slowest segment, less the delay."""
    options = ["--by", "event-time", "--field", "departure", "--delay", "50ms"]
    said = observe(served, root, stream, *options, "--for", "0s")

    assert said.status == 0
    assert marks(served, stream, "default") == [(350, {"0": 2, "1": 1})]
    assert marks(served, stream, "ingestion") == []


def test_it_observes_until_it_is_stopped(served: Served, stream: str, root: Path) -> None:
    """By a signal, as a command of `noted-time`; its last note is durable."""
    process = subprocess.Popen(
        [sys.executable, "-m", "noted_time", "observe", "log", root, stream, "--poll", "50ms"],
        env=environment(NOTED_TIME_URL=served.url),
        stdout=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: len(marks(served, stream, "ingestion")), 1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (0, f"observer observes {stream}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--by event-time --delay 5m", "--by event-time requires --field and --delay"),
        ("--by event-time --field departure", "--by event-time requires --field and --delay"),
        ("--by event-time --field x --delay 0s --skew 1s", "--skew requires --by ingestion"),
        ("--field departure", "--field requires --by event-time"),
        ("--idle 1m", "--idle requires --by event-time"),
        ("--poll 9ms", "poll_ms must be 10 or more, not 9"),
        ("--max-lag 500ms", "max_lag_ms must be at least poll_ms"),
        ("--timeout 0s", "timeout_ms must be 1 or more"),
        ("--by event-time --field landing --delay 5m --for 0s", "has no column landing"),
        ("--domain elsewhere --for 0s", "unknown_domain"),
    ],
)
def test_what_cannot_be_observed_is_refused(
    served: Served, stream: str, root: Path, arguments: str, sentence: str
) -> None:
    """With status 1, and the reason in a sentence."""
    said = observe(served, root, stream, *arguments.split())

    assert said.status == 1
    assert sentence in said.err


def test_a_duration_that_cannot_be_read_ends_with_2(
    served: Served, stream: str, root: Path
) -> None:
    """As any command that is not understood."""
    said = observe(served, root, stream, "--poll", "soon")

    assert (said.status, "invalid duration 'soon'" in said.err) == (2, True)


def test_an_unknown_stream_or_root_is_refused(served: Served, stream: str, root: Path) -> None:
    """Before anything is noted."""
    for arguments, sentence in (
        ((root, "nowhere"), "nowhere"),
        ((root / "nothing", stream), "nothing does not exist"),
        ((root, "a/b"), "stream 'a/b' is not"),
    ):
        said = observe(served, *arguments, "--for", "0s")

        assert said.status == 1
        assert sentence in said.err
