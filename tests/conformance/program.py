"""Starts a writer program and speaks the line protocol with it."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from noted_time.client import Json
from tests.support.processes import environment

ANSWER_S = 60.0
"""Twice the program's own deadline, so only a program that hangs takes so long."""

EXIT_S = 10.0

SHOWN = 200
"""The characters of each end of a program's log."""

ANSWERS = frozenset(("ok", "accepted", "excluded", "fenced", "refused", "gave up"))


Position = dict[str, int]


class Broken(AssertionError):
    """A law that the writer broke, in a sentence."""


@dataclass(frozen=True, slots=True)
class Said:
    """A command, the ends of both segments when it was given, and the program's answer."""

    at: float
    command: str
    ends: Position
    answer: Json

    @property
    def name(self) -> str:
        return self.command.partition(" ")[0]

    @property
    def time(self) -> int | None:
        """The time of a `note` command."""
        return int(self.command.split()[1]) if self.name == "note" else None

    @property
    def is_acknowledged(self) -> bool:
        """Whether the answer says that the controller has the note."""
        return self.answer.get("answer") in ("accepted", "excluded")


def shorten(log: str) -> str:
    """Return the two ends of a long log: Go has the error at the first one, Python at the last."""
    return log if len(log) <= 2 * SHOWN else f"{log[:SHOWN]} … {log[-SHOWN:]}"


class WriterProgram:
    """A writer program as a process group. The end of the block kills it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], errors: Path) -> None:
        self.ends: Position = {"0": 0, "1": 0}
        self.said: list[Said] = []
        self._errors = errors
        with errors.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment(**variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def ask(self, command: str) -> Json:
        """Give a command, and return the program's answer."""
        asked_at = time.monotonic()
        name, *words = command.split()
        if name in ("write", "ends"):
            written_counts = dict(zip(self.ends, map(int, words), strict=True))
            before = self.ends if name == "write" else {}
            self.ends = {
                segment: before.get(segment, 0) + n for segment, n in written_counts.items()
            }
        self.said.append(Said(asked_at, command, self.ends, {}))
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        answer = self._answer(command)
        self.said[-1] = Said(asked_at, command, self.ends, answer)
        return answer

    def crash(self) -> float:
        """End its input, and return when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._wait("after the end of its input")
        return time.monotonic()

    def close(self) -> Json:
        """Give `close`, and wait until the program has ended."""
        answer = self.ask("close")
        status = self._wait("after `close`")
        if status:
            raise Broken(f"after `close` the exit status is {status}, not 0")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            self._process.__exit__(None, None, None)

    def _answer(self, command: str) -> Json:
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], ANSWER_S)[0]:
            raise Broken(f"no answer to `{command}` within {ANSWER_S:.0f} s")
        line = output.readline()
        if not line:
            log = shorten(self._errors.read_text(errors="replace").strip())
            log = log or "it printed no error"
            raise Broken(f"the program ended without an answer to `{command}`: {log}")
        with suppress(ValueError, KeyError, TypeError):
            answer: Json = json.loads(line)
            if answer["answer"] in ANSWERS:
                return answer
        raise Broken(f"the answer to `{command}` is not of the protocol: {line.strip()[:200]}")

    def _wait(self, when: str) -> int:
        try:
            return self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"{when} the program still ran {EXIT_S:.0f} s later") from None
