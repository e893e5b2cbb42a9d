import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import TopicDescription
from typer.testing import CliRunner

from noted_time.kafka import Topic
from noted_time_cli.app import app
from tests.support.archive import append_rows
from tests.support.processes import environment
from tools.trials.served import Served


class Result(NamedTuple):
    """The status of a command, and its output on either stream."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """The decoded output."""
        return json.loads(self.out)

    @property
    def table(self) -> list[list[str]]:
        """The cells of the output; the first line has the names of the columns."""
        return [line.split("\t") for line in self.out.splitlines()]


class Commands:
    """Runs commands of `noted-time` against one controller."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: object, typed: str = "") -> Result:
        """Run one to its end; `typed` is what its standard input has.

        The width of a terminal, which the processes of a parallel run have, is not passed on.
        """
        variables = {"NOTED_TIME_URL": self.url, "COLUMNS": None}
        result = CliRunner().invoke(app, [*map(str, arguments)], input=typed, env=variables)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return Result(result.exit_code, result.stdout, result.stderr)


class Console(Commands):
    """Runs commands against a controller that the test calls as well."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.url)
        self.served = served

    def note(self, stream: str, **times: int) -> None:
        note(self.served, stream, **times)


def start_command(served: Served, *words: object, **variables: str) -> subprocess.Popen[str]:
    """Start a command in another process."""
    return subprocess.Popen(
        [sys.executable, "-m", "noted_time", *map(str, words)],
        env=environment(NOTED_TIME_URL=served.url, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def note(served: Served, stream: str, **times: int) -> None:
    """Have each writer note a time, at position 0:10, and declare that its rows are of it."""
    notes = ({"writer": writer, "time": time, "max_time": time} for writer, time in times.items())
    served.post(stream, *({**note, "position": {"0": 10}} for note in notes))


def write(root: Path, stream: str, segment: int, *times: int) -> None:
    """Write rows of these times to a partition of a topic's archive, each in a file."""
    for time in times:
        append_rows(root, stream, segment, [{"at": datetime.fromtimestamp(time / 1000, UTC)}])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up at once on a broker that does not answer."""
    fetch = Topic._fetch_description

    def soon(topic: Topic, _: float, **more: bool) -> TopicDescription:
        return fetch(topic, 0.3, **more)

    monkeypatch.setattr(Topic, "_fetch_description", soon)


@pytest.fixture
def stream(served: Served) -> str:
    """Make a new stream for a test."""
    return served.new()


@pytest.fixture
def run(served: Served) -> Console:
    """Return a console that runs commands against it."""
    return Console(served)
