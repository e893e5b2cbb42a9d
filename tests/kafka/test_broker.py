"""The broker for trials, `./run kafka`, and its jars."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.kafka.topic import Topic
from tests.support.processes import ROOT, environment
from tools.trials import kafka
from tools.trials.maven import Jar, fetch
from tools.trials.ports import free_port
from tools.trials.run_kafka import main

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not kafka.is_installed(), reason=kafka.MISSING),
]


def run_kafka(data: Path, *options: str) -> subprocess.Popen[str]:
    """Start the broker in its own process group, as a terminal does."""
    words = [sys.executable, "-m", "tools.trials.run_kafka", "--data", str(data), *options]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, process_group=0
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Return lines up to the first that contains the text."""
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while text not in lines[-1]:
        assert lines[-1], lines
        lines.append(process.stderr.readline())
    return lines


def test_trial_broker_runs_until_ctrl_c_and_keeps_topics(tmp_path: Path) -> None:
    """Ctrl-C reaches Kafka, too; a second broker on the same port or data is refused."""
    port = free_port()
    with run_kafka(tmp_path, "--port", str(port), "--topic", "flights:4") as first:
        lines = read_until(first, "another terminal")
        on_port = run_kafka(tmp_path / "other", "--port", str(port)).communicate()[1]
        on_data = run_kafka(tmp_path, "--port", str(free_port())).communicate()[1]
        message = run_kafka(tmp_path, "--port", str(port), "--topic", "sales:2").communicate()[1]
        look = Topic({"bootstrap.servers": f"127.0.0.1:{port}"}, "flights").look()
        os.killpg(first.pid, signal.SIGINT)
        first.communicate()
    with run_kafka(tmp_path, "--port", str(port)) as second:
        lines_of_second = read_until(second, "another terminal")
        second.terminate()
        second.communicate()

    assert lines[-1] == "To try it, produce in another terminal:\n"
    assert lines[0].startswith(f"Kafka listens at 127.0.0.1:{port} until Ctrl-C")
    assert look.ends == dict.fromkeys(range(4), 0)
    both = "Topics: flights (4 partitions), sales (2 partitions)"
    assert message == f"It runs at 127.0.0.1:{port}. {both}.\n"
    assert lines_of_second[1].startswith(f"{both}; ")
    assert f"port {port} is taken" in on_port
    assert f"another ./run kafka runs over {tmp_path}: end it first" in on_data
    assert (first.returncode, second.returncode) == (0, 0)


@pytest.mark.parametrize(
    ("option", "given", "says"),
    [
        ("--topic", "my topic:2", "'my topic:2' is not NAME:PARTITIONS: a name of A-Z a-z 0-9 . _"),
        ("--topic", "flights:many", "'flights:many' is not NAME:PARTITIONS"),
        ("--topic", "flights:0", "'flights:0' is not NAME:PARTITIONS"),
        ("--port", "99999", "'99999' is not a port from 1 to 65531"),
    ],
)
def test_a_mistyped_option_starts_no_broker(
    capsys: pytest.CaptureFixture[str], option: str, given: str, says: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([option, given])

    assert f"argument {option}: {says}" in capsys.readouterr().err


# Jars


CONTENT = b"the content of a jar"

JAR = Jar("org.example", "one", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with the jar, and with one of a wrong checksum."""
    for name, content in ("one", CONTENT), ("changed", b"something else"):
        file = tmp_path / "repository/org/example" / name / f"1.0/{name}-1.0.jar"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    return tmp_path / "repository"


def test_jars_are_fetched_once(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged jar is fetched again."""
    (jar,) = fetch([JAR], tmp_path / "jars", repository=repository.as_uri())
    fetch([JAR], tmp_path / "jars", repository=repository.as_uri())
    jar.write_text("damaged")
    fetch([JAR], tmp_path / "jars", repository=repository.as_uri())

    assert jar.read_bytes() == CONTENT
    assert capsys.readouterr().err == f"Fetching 1 jars into {tmp_path / 'jars'}, once.\n" * 2


@pytest.mark.parametrize(
    ("name", "error", "expected"),
    [
        ("changed", Rejected, r"changed-1\.0\.jar: checksum mismatch"),
        ("absent", Unreachable, r"absent-1\.0\.jar could not be fetched .*--repository URL"),
    ],
)
def test_jar_with_a_wrong_checksum_is_not_kept(
    repository: Path, tmp_path: Path, name: str, error: type[NotedTimeError], expected: str
) -> None:
    """No part of it is kept, either."""
    with pytest.raises(error, match=expected):
        fetch([JAR._replace(name=name)], tmp_path / "jars", repository=repository.as_uri())

    assert [*(tmp_path / "jars").iterdir()] == []
