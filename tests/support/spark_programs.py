"""Spark drivers in processes of their own, which a test can kill."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "spark" / "programs"
LAST_WORDS_S = 10


class SparkProgram:
    """One run of a program from `tests/spark/programs`, with its arguments as JSON.

    Its own process group, so that killing it leaves no Java behind.
    """

    def __init__(self, name: str, given: dict[str, object], log: Path) -> None:
        self._log, self._printed = log, log.with_suffix(".printed")
        environment = {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, str(PROGRAMS / f"{name}.py"), json.dumps(given)]
        # Java may still log when the program has printed its last line, so the two are kept apart.
        with self._printed.open("wb") as printed, log.open("wb") as logged:
            self._process = subprocess.Popen(
                command, env=environment, stdout=printed, stderr=logged, start_new_session=True
            )

    def finish(self, timeout_s: float = 240) -> str:
        """Wait for the end and return the last line it printed.

        A failure shows its log; one that does not end logs first where its threads are.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            code = self._process.wait(LAST_WORDS_S)
            self.kill()
        assert code == 0, self._log.read_text()
        return self._printed.read_text().strip().rpartition("\n")[2]

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Take it down at once with all it started, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
