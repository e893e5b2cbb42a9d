"""Spark drivers as processes that a test can kill."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.trials import classes
from tools.trials.daemons import Daemon
from tools.trials.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "spark" / "programs"
LAST_WORDS_S = 10


class SparkProgram(Daemon):
    """A run of a program from `tests/spark/programs`, or at a path, with arguments as JSON.

    `words` precede the program's path, by default the Python that runs it.
    """

    def __init__(
        self,
        program: str | Path,
        program_input: dict[str, object],
        log: Path,
        words: Sequence[str] = (sys.executable,),
    ) -> None:
        path = program if isinstance(program, Path) else PROGRAMS / f"{program}.py"
        command = [*words, str(path), json.dumps(program_input)]
        # Java may still log after the program has printed its last line.
        self._printed = log.with_suffix(".printed")
        super().__init__(command, log, environment(), printed=self._printed)

    def finish(self, timeout_s: float = PATIENCE_S) -> str:
        """Wait for the end and return the last printed line.

        A failure shows its log; without an end, that has the threads' stacks.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            code = self._process.wait(LAST_WORDS_S)
            self.kill()
        assert code == 0, self._log.read_text()
        return self.read_output().strip().rpartition("\n")[2]

    def status(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end, and return the status: negative for a signal."""
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def read_output(self) -> str:
        return self._printed.read_text()

    def has_ended(self) -> bool:
        return self.poll() is not None

    def has_said(self, text: str) -> bool:
        return text in self._log.read_text()

    def describe_end(self) -> str:
        """Return its last error and what followed, or the end of its log."""
        text = self._log.read_text()
        return f"{self._log}:\n{text[text.rfind('Traceback (most recent call last)') :][-9000:]}"


def environment() -> dict[str, str]:
    """Return a program's environment: this clone and its Python, without Spark's settings."""
    inherited_variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))
    }
    return {
        **inherited_variables,
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": classes.read(classes.SPARK),
    }
