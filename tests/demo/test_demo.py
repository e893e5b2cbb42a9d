from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import httpx
import pytest
from rich.console import Console
from typer import Exit

from demo.cli import DISK_FULL, end_in_order
from demo.surroundings import controller
from tools.trials import debezium, kafka
from tools.trials.descendants import find_marked
from tools.trials.postgres import find_binaries
from tools.trials.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG"
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
REMEDY = "See that memory and disk space are left, and start the demo again."

JAVA_ERROR = "calling JavaSparkContext.\n: java.io.IOException: No space left on device\n\tat java"


@contextmanager
def demo(
    directory: Path, *arguments: str, variables: Mapping[str, str] = NO_VARIABLES
) -> Iterator[subprocess.Popen[str]]:
    """Run the demo, by default on one day of flights, everything that it makes in `directory`.

    The end of the block kills its remaining processes.
    """
    words = [sys.executable, "-m", "demo", *(arguments or ("--days", "1"))]
    scratch = directory / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [*words, "--out", str(directory)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_noted_time_and_the_least_delay_lose_nothing(demo_directory: Path) -> None:
    """Spark measures the first day of 2013 against a real controller."""
    figures = json.loads((demo_directory / "flights.json").read_text())

    lossless = [method["method"] for method in figures["methods"] if not method["lost"]]
    assert lossless[0] == "noted time"


def test_spark_measures_what_the_simulation_predicts(demo_directory: Path) -> None:
    """Every row lost, every latency."""
    figures = json.loads((demo_directory / "flights.json").read_text())

    assert (figures["as_simulated"], figures["own_watermark"]) == (True, "measured")


def test_the_findings_are_drawn(demo_directory: Path) -> None:
    """The picture is a PNG."""
    assert (demo_directory / "flights.png").read_bytes().startswith(PNG)


def test_nothing_is_left_behind(demo_directory: Path) -> None:
    """Log, database and checkpoints are deleted."""
    assert [path.name for path in (demo_directory / "scratch").glob("noted-time-*")] == []


def test_flights_can_be_read_after_the_demo(demo_directory: Path, tmp_path: Path) -> None:
    """The database that stays has the stream with its last mark, and every carrier."""
    with controller(demo_directory / "flights.db", tmp_path) as url:
        stream = httpx.get(f"{url}/v1/streams/flights", trust_env=False).json()
        writers = httpx.get(f"{url}/v1/streams/flights/writers", trust_env=False).json()["writers"]

    states = {row["state"] for row in writers}
    assert (stream["marks"]["default"] is not None, states) == (True, {"finished"})


def test_database_of_a_controller_is_not_removed(tmp_path: Path) -> None:
    """The demo's last advice starts a controller on it."""
    database = tmp_path / "flights.db"
    with controller(database, tmp_path), demo(tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)

    refusal = f"{database} is served by a controller: stop it, or choose another directory by --out"
    assert (process.returncode, refusal in " ".join(output.split())) == (2, True), output
    assert database.exists()


def wait_for_file(process: subprocess.Popen[str], directory: Path, pattern: str) -> None:
    """Wait until there is a file, or the process has ended."""
    wait_until(lambda: process.poll() is not None or any(directory.glob(pattern)))


def list_left_behind(directory: Path) -> list[str]:
    """Return what is left of a demo: its scratch files, and its processes."""
    processes = subprocess.check_output(["ps", "-A", "-o", "args"], text=True).splitlines()
    left = [str(path) for path in (directory / "scratch").glob("noted-time-*")]
    left += [process for process in processes if str(directory) in process]
    return left


def find_broker(directory: Path) -> int:
    """Return the process id of the broker of a demo."""
    processes = subprocess.check_output(["ps", "-A", "-o", "pid,args", "-ww"], text=True)
    (broker,) = (
        line for line in processes.splitlines() if str(directory) in line and "kafka.Kafka" in line
    )
    return int(broker.split()[0])


@pytest.mark.skipif(not kafka.is_installed(), reason=kafka.MISSING)
@pytest.mark.parametrize("story", [(), ("--story", "observers")], ids=["noted", "observers"])
def test_killed_broker_is_the_only_cause_shown(tmp_path: Path, story: tuple[str, ...]) -> None:
    """It is killed while producers write and a query reads; no trace of a client is printed."""
    segments = "noted-time-*/kafka/data/flights-*/*.log"
    with demo(tmp_path, "--kafka", "--days", "1", *story) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or any(file.stat().st_size for file in (tmp_path / "scratch").glob(segments))
            )
        )
        os.kill(find_broker(tmp_path), signal.SIGKILL)

        output, _ = process.communicate(timeout=2 * PATIENCE_S)
        left = list_left_behind(tmp_path)

    _, _, end = " ".join(output.split()).partition("noted-time: ")
    cause = "Kafka's broker ended with status -9, so the demo could not go on."
    assert (process.returncode, end, left) == (2, f"{cause} {REMEDY}", []), output
    assert ("Traceback" in output, "FAIL|" in output) == (False, False), output


@pytest.mark.skipif(not kafka.is_installed(), reason=kafka.MISSING)
def test_broker_that_cannot_start_shows_its_cause(tmp_path: Path) -> None:
    """Here, Java does not start."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'Error: could not find libjava.so' >&2\nexit 1\n")
    java.chmod(0o755)
    variables = {"JAVA_HOME": str(tmp_path / "java")}
    with demo(tmp_path, "--kafka", "--days", "1", variables=variables) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        left = list_left_behind(tmp_path)

    _, _, end = " ".join(output.split()).partition("noted-time: ")
    cause = "Kafka's broker did not start: Error: could not find libjava.so."
    assert (process.returncode, end, left) == (2, f"{cause} {REMEDY}", []), output
    assert "Traceback" not in output, output


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "log"), RuntimeError(JAVA_ERROR)],
    ids=["python", "java"],
)
def test_full_disk_is_told_without_a_trace(error: Exception) -> None:
    """The errors are those of a real one, for files and for Spark."""
    printed = StringIO()
    console = Console(file=printed, width=1000)

    with pytest.raises(Exit) as ended, end_in_order(console):
        raise error

    assert (ended.value.exit_code, printed.getvalue()) == (2, f"{DISK_FULL}\n")


def test_an_interrupted_demo_cleans_up(tmp_path: Path) -> None:
    """Stopped amid the replay, it ends its controller and removes its files."""
    written_pattern = "noted-time-*/log/flights/partition=*/*.parquet"
    with demo(tmp_path) as process:
        wait_for_file(process, tmp_path / "scratch", written_pattern)
        was_running = process.poll() is None

        process.terminate()

        output, _ = process.communicate(timeout=PATIENCE_S)
        left = list_left_behind(tmp_path)
    assert (was_running, process.returncode != 0, left) == (True, True, []), output


def test_ctrl_c_ends_database_broker_and_connect() -> None:
    """The directory is not pytest's, because PostgreSQL runs as another user."""
    if find_binaries() is None or not debezium.find_class_path():
        pytest.skip("PostgreSQL or Debezium is not installed")
    with TemporaryDirectory(prefix="noted-time-") as name:
        Path(name).chmod(0o755)
        scratch = Path(name, "scratch")
        started = "noted-time-*/connect/log"
        with demo(Path(name), "--cdc") as process:
            wait_for_file(process, scratch, started)
            was_running = process.poll() is None

            os.killpg(process.pid, signal.SIGINT)

            output, _ = process.communicate(timeout=PATIENCE_S)
            wait_until(lambda: not find_marked(name))
        left = [path.name for path in scratch.iterdir()]
    assert (was_running, process.returncode != 0, left) == (True, True, []), output


@pytest.fixture(scope="module")
def demo_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a demo that ran to its end."""
    directory = tmp_path_factory.mktemp("demo")
    with demo(directory) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output
    (directory / "output").write_text(output)
    return directory
