"""Record what routes and commands answer in random histories, and find what a change changes.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from hashlib import sha256
from io import StringIO
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
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
from noted_time.values import MIN_INT64
from noted_time_cli.app import app
from noted_time_cli.client import caller
from tests.simulation.doors import Door
from tests.simulation.virtual import VirtualLoop
from tests.support.asking import ask
from tests.support.calls import HOUR_MS, TEN
from tests.support.claimed import Orders
from tests.support.served import KeptStore
from tests.trials.histories import DOMAINS, MINUTE_MS, REQUIREMENTS, Call, History

HISTORIES, TOGETHER = 2000, 200
ACTS = 6
TABLE_EVERY = 20
"""Of so many histories one has a table."""

KINDS = (
    *("acts", "marks", "window", "cut", "ledger", "explain", "groups", "views"),
    *("complete-to", "wait", "claims"),
)
HASHES = Path(__file__).with_name("hashes.txt")
HASH_DIGITS = 10
NONE = "-"
REMEDY = (
    "run `python -m tests.trials.record --full {0}` here and in a worktree of the commit before"
)

COMMAND = get_command(app)
VARIABLES = {"NOTED_TIME_URL": "http://localhost", PROGRAM_VARIABLE: "noted-time", "COLUMNS": "80"}
NO_PEERS = httpx.MockTransport(lambda _: httpx.Response(503))
JSON_HEADER = (b"content-type", b"application/json")
RANDOM_ID = re.compile(r"\b[0-9a-f]{32}\b")

Answers = dict[str, list[str]]
"""The answers of a history by kind, in order."""


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

    def sleep(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def call(self, calls: Iterable[Call]) -> list[str]:
        """Make calls at once, and return the request and the answer of each."""

        async def make_all() -> list[str]:
            return await asyncio.gather(*map(self._call, calls))

        return self.loop.run_until_complete(make_all())

    async def _call(self, call: Call) -> str:
        body = b"" if call.body is None else json.dumps(call.body).encode()
        answer = await self._door.answer(call.method, call.path, body, JSON_HEADER)
        return f"{call.method} {call.path} {body.decode()}\n{answer.status_code} {answer.text}"

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a command."""
        target = request.url.raw_path.decode()
        answer = self._door.answer(request.method, target, request.read(), JSON_HEADER)
        return self.loop.run_until_complete(answer)

    def run(self, *words: object) -> str:
        """Run a command, and return all that it prints, and its status."""
        line, printed = [*map(str, words)], StringIO()
        with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as end:
            COMMAND.main(line, prog_name="noted-time")
        return f"$ noted-time {' '.join(line)}\n{printed.getvalue()}[{end.value.code}]"


@contextmanager
def open_console() -> Iterator[Console]:
    """Open a console in a directory of its own. Nothing in the block reads a real clock."""
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


def play(first: int) -> dict[int, Answers]:
    """Play a group of histories, the first of which is given."""
    histories = [History(seed) for seed in range(first, first + TOGETHER)]
    found = {each.seed: {kind: list[str]() for kind in KINDS} for each in histories}
    chance = Random(first)
    with open_console() as console:

        def call(calls: list[Call]) -> None:
            for asked, answer in zip(calls, console.call(calls), strict=True):
                found[asked.seed][asked.kind].append(RANDOM_ID.sub("…", answer))

        call([each.create() for each in histories])
        for left in reversed(range(ACTS)):
            call([each.act() for each in histories])
            console.sleep(chance.choice([0, 0.4, 1, 2, 12]))
            if left == first // TOGETHER % ACTS:
                console.stop()
                console.start()
        call([question for each in histories for question in each.ask_routes()])
        for each in histories:
            for kind, answer in ask_commands(each, console.run):
                found[each.seed][kind].append(answer)
    return found


def ask_commands(history: History, run: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Ask as a user of the command line, by kind; and claims of a table, if there is one."""
    chance, time_, domain = history.chance, history.guess_time(), history.chance.choice(DOMAINS)
    asked = {"require": chance.choice(REQUIREMENTS)}
    if history.seed % 4 == 1:
        yield "complete-to", ask(run, "complete-to", history.name, domain=domain, **asked)
    elif history.seed % 4 == 3:
        yield "wait", ask(run, "wait", history.name, time_, domain=domain, **asked)
    if history.seed % TABLE_EVERY == 0:
        table = claim_times(history, domain)
        yield "claims", run("claim", "show", table)
        yield "claims", ask(run, "complete-to", table, **asked)
        yield "claims", ask(run, "wait", table, time_, **asked)
        yield "claims", ask(run, "why", table)


def claim_times(history: History, domain: str) -> str:
    """Commit claims of a stream's query to a table, and return its URL."""
    chance, orders, time_ = history.chance, Orders(Path(history.name)), TEN
    for batch in range(4):
        if batch and chance.random() < 0.15:
            orders.overwrite()
            continue
        time_ += chance.choice([-1, 0, 1, 2]) * MINUTE_MS
        missing = ["a"] * (chance.random() < 0.3)
        orders.claim(
            time_,
            batch,
            *missing,
            stream=history.name,
            domain=domain,
            asked=chance.random() < 0.7,
            since=chance.choice([MIN_INT64, TEN, None]),
            first=chance.choice([TEN, None]),
        )
    return orders.url


def hash_answers(answers: Answers) -> list[str]:
    """Return a hash for each kind, `NONE` without an answer."""
    texts = ("\n".join(answers[kind]).encode() for kind in KINDS)
    return [sha256(text).hexdigest()[:HASH_DIGITS] if text else NONE for text in texts]


def record() -> list[list[str]]:
    """Return the hashes of each history, in the order of the seeds."""
    is_collecting = gc.isenabled()
    gc.disable()  # it takes a third of the time
    try:
        groups = (play(first) for first in range(0, HISTORIES, TOGETHER))
        return [hash_answers(answers) for found in groups for answers in found.values()]
    finally:
        if is_collecting:
            gc.enable()


def find_change(hashes: Sequence[Sequence[str]], kind: str) -> str | None:
    """Return a sentence on the first history whose answers of a kind differ from the recorded."""
    column = KINDS.index(kind)
    recorded = [line.split() for line in HASHES.read_text().splitlines()]
    pairs = enumerate(zip(hashes, recorded, strict=True))
    first = next((seed for seed, (now, then) in pairs if now[column] != then[column]), None)
    return (
        None
        if first is None
        else f"history {first} has other answers of {kind!r}: {REMEDY.format(first)}"
    )


def print_answers(seeds: Sequence[int]) -> None:
    """Print all answers of these histories."""
    for group in sorted({seed // TOGETHER for seed in seeds}):
        for seed, answers in play(group * TOGETHER).items():
            if seed in seeds:
                for kind in KINDS:
                    print(f"history {seed}: {kind}", *answers[kind], sep="\n")  # noqa: T201


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parser = argparse.ArgumentParser("python -m tests.trials.record", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="with --full: this history only")
    parser.add_argument("--full", action="store_true", help="print the answers")
    parser.add_argument("--write", action="store_true", help="renew the recorded hashes")
    given = parser.parse_args()
    if given.full:
        print_answers(range(HISTORIES) if given.seed is None else [given.seed])
        return
    hashes = record()
    if given.write:
        HASHES.write_text("".join(f"{' '.join(each)}\n" for each in hashes))
    if changes := [*filter(None, (find_change(hashes, kind) for kind in KINDS))]:
        sys.exit("\n".join(changes))


if __name__ == "__main__":
    main()
