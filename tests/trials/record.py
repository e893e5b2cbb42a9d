"""Record the answers of routes and commands in random histories, and find changed ones.

The histories are played in groups. Each group has a controller in this process, which restarts
once, and a virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from hashlib import sha256
from io import StringIO
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

import httpx
import pytest
import structlog
from typer.main import get_command

from controller.service import long_reads, maintenance, polls
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from noted_time.client.transport import Transport
from noted_time.installation import PROGRAM_VARIABLE
from noted_time_cli.app import app
from noted_time_cli.client import caller
from tests.support.asking import ask
from tests.trials.histories import DOMAINS, REQUIREMENTS, Call, History
from tests.trials.simulation.doors import Door
from tests.trials.simulation.virtual import VirtualLoop
from tools.trials.calls import HOUR_MS, TEN
from tools.trials.served import KeptStore

HISTORIES = 2000
TESTED = 1000
TOGETHER = 200
ACTS = 6

KINDS = (
    *("acts", "marks", "ledger", "explain", "cut", "completeness", "time-window", "windows"),
    *("writers", "overview", "changes", "segments", "history", "reader-groups"),
    *("complete-to", "wait"),
)
HASH_DIGITS = 10
REMEDY = "run this module with --full {}, here and in a worktree of the commit before"

COMMAND = get_command(app)
VARIABLES = {"NOTED_TIME_URL": "http://localhost", PROGRAM_VARIABLE: "noted-time", "COLUMNS": "80"}
NO_PEERS = httpx.MockTransport(lambda _: httpx.Response(503))
RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b")

Answers = defaultdict[str, list[str]]
"""The answers of a history by kind."""


class Console(httpx.BaseTransport):
    """Calls one controller without a socket, and runs commands that call it."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(lambda _: 0.0, lambda: True)
        self._store = KeptStore()
        self.start()

    def time(self) -> float:
        return (TEN + HOUR_MS) / 1000 + self.loop.time()

    def _unix_ms(self) -> int:
        return int(self.time() * 1000)

    def start(self) -> None:
        clocks = Clocks(wall_ms=self._unix_ms, steady_ms=self._unix_ms, chance=Random(0))
        self._controller = Controller(self._store, clocks)
        self._door = Door(self._controller, NO_PEERS)
        self.loop.run_until_complete(self._controller.start())

    def stop(self) -> None:
        self.loop.run_until_complete(self._controller.close())

    def call(self, calls: Sequence[Call]) -> list[str]:
        """Make calls at once, and return the request and the answer of each."""
        tasks = [
            self.loop.create_task(self._door.handle_async_request(call.build_request()))
            for call in calls
        ]
        answers = zip(calls, self.loop.run_until_complete(asyncio.gather(*tasks)), strict=True)
        return [
            f"{' '.join(call[1:])}\n{answer.status_code} {answer.text}" for call, answer in answers
        ]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a command."""
        request.read()
        return self.loop.run_until_complete(self._door.handle_async_request(request))

    def run(self, *words: object) -> str:
        """Run a command, and return all that it prints, and its status."""
        line = [*map(str, words)]
        output = StringIO()
        with redirect_stdout(output), redirect_stderr(output), pytest.raises(SystemExit) as end:
            COMMAND.main(line, prog_name="noted-time")
        return f"$ noted-time {' '.join(line)}\n{output.getvalue()}[{end.value.code}]"


@contextmanager
def open_console() -> Iterator[Console]:
    """Open a console in a new directory. Nothing in the block reads a real clock."""
    console = Console()
    with (
        TemporaryDirectory() as directory,
        chdir(directory),
        patch.dict(os.environ, VARIABLES),
        patch.object(caller, "Transport", partial(Transport, transport=console)),
        patch.object(maintenance, "TICK_S", 1.0),
        patch.object(polls, "monotonic", console.loop.time),
        patch.object(long_reads, "SLICE_S", inf),
        patch.object(time, "time", console.time),
    ):
        yield console
        console.stop()
    console.loop.close()


def ask_commands(history: History, run: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Ask as a user of the command line, by kind."""
    chance = history.chance
    times = {"complete-to": "", "wait": str(history.guess_time())}
    require = chance.choice(REQUIREMENTS)
    domain = chance.choice(DOMAINS)
    if history.seed % 2:
        word = chance.choice([*times])
        yield word, ask(run, word, history.name, times[word], require=require, domain=domain)


class Recording(NamedTuple):
    """Kinds of answers, the file of their hashes, and what asks the commands of a history.

    Of `every` so many histories one has such answers.
    """

    kinds: tuple[str, ...]
    hashes: Path
    ask_commands: Callable[[History, Callable[..., str]], Iterator[tuple[str, str]]]
    every: int = 1


CORE = Recording(KINDS, Path(__file__).with_name("hashes.txt"), ask_commands)


def play(first: int, recording: Recording = CORE) -> dict[int, Answers]:
    """Play a group of histories from the first seed on, and return their answers by seed."""
    histories = [History(seed) for seed in range(first, first + TOGETHER)]
    answers_by_seed = {history.seed: defaultdict[str, list[str]](list) for history in histories}
    chance = Random(first)

    def call(calls: Sequence[Call], kind: str = "") -> None:
        for call_made, answer in zip(calls, console.call(calls), strict=True):
            word = kind or re.split("[/?]", call_made.path)[1]
            answers_by_seed[call_made.seed][word].append(RANDOM_ID.sub("…", answer))

    with open_console() as console:
        call([history.create() for history in histories], "acts")
        for act in range(ACTS):
            call([history.act() for history in histories], "acts")
            console.loop.run_until_complete(asyncio.sleep(chance.choice([0, 0.4, 1, 2, 12])))
            if act == first // TOGETHER % ACTS:
                console.stop()
                console.start()
        questions: list[Call] = []
        for history in histories:
            questions += history.ask()
        call(questions)
        for history in histories:
            for kind, answer in recording.ask_commands(history, console.run):
                answers_by_seed[history.seed][kind].append(answer)
    return answers_by_seed


def record(histories: int = HISTORIES, recording: Recording = CORE) -> list[str]:
    """Return the hashes of each history's answers by kind, a line a history."""
    gc.disable()  # it takes a third of the time
    try:
        lines = []
        for first in range(0, histories, TOGETHER):
            for seed, answers in play(first, recording).items():
                if seed % recording.every == 0:
                    hashes = [hash_lines(answers[kind]) for kind in recording.kinds]
                    lines.append(" ".join(hashes))
        return lines
    finally:
        gc.enable()


def write_texts(directory: Path, histories: int, recording: Recording) -> None:
    """Write all answers, a file of JSON for each group of histories."""
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, histories, TOGETHER):
        text = json.dumps(play(first, recording), ensure_ascii=False)
        (directory / f"{first}.json").write_text(text)


def hash_lines(lines: Sequence[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()[:HASH_DIGITS] if lines else "-"


def find_change(hashes: Sequence[str], kind: str, recording: Recording = CORE) -> str | None:
    """Return a sentence on the first history whose answers of a kind are not as recorded."""
    column = recording.kinds.index(kind)
    lines = recording.hashes.read_text().splitlines()
    for place, (now, then) in enumerate(zip(hashes, lines, strict=False)):
        if now.split()[column] != then.split()[column]:
            seed = place * recording.every
            return f"history {seed} has other answers of {kind!r}: {REMEDY.format(seed)}"
    return None


def main(recording: Recording = CORE, about: str | None = __doc__) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--full", type=int, metavar="SEED", help="print all answers of a history")
    parser.add_argument("--write", action="store_true", help="renew the recorded hashes")
    parser.add_argument("--texts", type=Path, metavar="DIRECTORY", help="write all answers")
    options = parser.parse_args()
    if options.texts is not None:
        write_texts(options.texts, HISTORIES, recording)
        return
    if options.full is not None:
        answers = play(options.full - options.full % TOGETHER, recording)[options.full]
        for kind in recording.kinds:
            print(kind, *answers[kind], sep="\n")  # noqa: T201
        return
    hashes = record(HISTORIES, recording)
    if options.write:
        recording.hashes.write_text("\n".join([*hashes, ""]))
    changes = (find_change(hashes, kind, recording) for kind in recording.kinds)
    sys.exit("\n".join(filter(None, changes)) or None)


if __name__ == "__main__":
    main()
