"""`noted-time observe log`, against a real controller and a file log."""

from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Commands, start_command, write
from tools.trials.ports import free_port
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, eventually, wait_until


def test_an_observer_shows_whether_its_notes_are_accepted(tmp_path: Path) -> None:
    """Its health depends on its timeout."""
    port = free_port()
    options = ["--max-lag", "100ms", "--poll", "50ms", "--timeout", "1s", "--domain", "default"]

    def status(path: str = "healthz") -> int:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False).status_code
        return 0

    with Served() as served:
        name = served.new()
        write(tmp_path, name, 0, 1)
        words = ["observe", "log", "ingestion", tmp_path, name, *options]
        with start_command(served, *words, NOTED_TIME_HEALTH_PORT=str(port)) as process:
            eventually(status, 200)
            served.stop()
            eventually(status, 503)
            metrics = status("metrics")
            served.start()
            eventually(status, 200)
            process.terminate()

    assert (metrics, process.returncode) == (200, 0)


def test_observer_runs_until_a_signal(served: Served, tmp_path: Path) -> None:
    """Its last note is durable."""
    stream = served.new(domains=["ingestion"])
    write(tmp_path, stream, 0, 1)
    words = ["observe", "log", "ingestion", tmp_path, stream, "--poll", "50ms"]
    with start_command(served, *words) as process:
        wait_until(lambda: served.all_marks(stream, "ingestion"))
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (0, f"observer observes {stream}\n")


@pytest.mark.parametrize("words", ["observe log ingestion", "observe log event-time"])
def test_help_shows_flags_without_a_value(run: Commands, words: str) -> None:
    output = run(*words.split(), "--help").out

    assert ("--help" in output, "bool" in output) == (True, False)
