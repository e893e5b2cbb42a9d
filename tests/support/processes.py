"""A controller as a process, started by `python -m controller serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from noted_time.installation import PROGRAM_VARIABLE
from tests.support.forks import Forked
from tools.trials.calls import Calls
from tools.trials.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child: this clone's packages, without our settings."""
    inherited_variables = {k: v for k, v in os.environ.items() if not k.startswith("NOTED_TIME_")}
    ours = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", PROGRAM_VARIABLE: "noted-time"}
    return inherited_variables | ours | variables


def start_python(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], error_file: Path, *, is_forked: bool
) -> Forked | subprocess.Popen[bytes]:
    """Run ``python -m`` with these words, which prints into PRINTED.out and PRINTED.

    It is a fork, unless it runs other code than this clone's.
    """
    output = error_file.with_suffix(".out")
    errors = error_file
    if is_forked and env["PYTHONPATH"] == str(ROOT):
        return Forked(words, cwd, env, output, errors)
    with output.open("ab") as out, errors.open("ab") as err:
        command = [sys.executable, "-m", *words]
        return subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=err)


def run_python(
    *words: object, cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run this Python in a new process until it ends."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def run_command(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    words = ("controller", *arguments)
    with tempfile.TemporaryDirectory() as directory:
        error_file = Path(directory, "command.errors")
        process = start_python(words, cwd, environment(**variables), error_file, is_forked=True)
        try:
            status = process.wait(PATIENCE_S)
        finally:
            process.kill()
        output = error_file.with_suffix(".out").read_text()
        errors = error_file.read_text()
    return subprocess.CompletedProcess(words, status, output, errors)


class ServeProcess(Calls):
    """A running `serve` on a free port, with its log in a file.

    The end of the block kills it.
    """

    def __init__(
        self,
        directory: Path,
        *options: str,
        port: int = 0,
        module: str = "controller",
        is_forked: bool = True,
        **variables: str,
    ) -> None:
        """Start it on the database `noted-time.db` in the directory; `ready` waits for it.

        Another `module` may prepare the process. Do not fork to test how Python starts or ends.
        """
        super().__init__("")
        self.log_file = directory / f"{time.monotonic_ns()}.log"
        self.log_file.touch()
        words = (module, "serve", "--port", str(port), *options)
        env = environment(**variables)
        self.process = start_python(words, directory, env, self.log_file, is_forked=is_forked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ready(self) -> ServeProcess:
        """Wait until it listens, or raise `AssertionError` with its log."""
        wait_until(lambda: self.listens() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()
        return self

    @property
    def url(self) -> str:
        return next(str(line["url"]) for line in self.log() if line["event"] == "serving")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def text(self) -> str:
        return self.log_file.read_text()

    def log(self) -> list[dict[str, Any]]:
        """Return the complete lines of the log, decoded."""
        return [json.loads(line) for line in self.text().splitlines(keepends=True) if "\n" in line]

    def kill(self) -> None:
        """End it like a power cut."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> tuple[int, float]:
        """Stop it, and return its exit status and the seconds it took."""
        begun_s = time.monotonic()
        self.process.terminate()
        status = self.process.wait(timeout=PATIENCE_S)
        return status, time.monotonic() - begun_s

    def listens(self) -> bool:
        return '"serving"' in self.text() and any(line["event"] == "serving" for line in self.log())
