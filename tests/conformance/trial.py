"""One trial of a writer: programs that write to a stream through proxies, step by step."""

import json
import re
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import httpx

from noted_time.client import Json
from tests.conformance.program import Broken, Said, WriterProgram
from tests.conformance.proxy import KINDS, Fault, Proxy, serving
from tests.support.processes import ServeProcess
from tests.trials.facts import Claim
from tests.trials.judge import judge
from tools.trials.calls import Calls

TRIALS = Path(__file__).parent / "trials.txt"
WRITER = "writer"
PEER = "peer"
QUIET_S = 1.5
RETURN_S = 15.0
DATABASE = "noted-time.db"
BACKUP = "backup"


class Script(NamedTuple):
    """A trial of `trials.txt`; it finds these faults of a writer, with words of its account."""

    name: str
    law: str
    faults: Mapping[str, str]
    steps: Sequence[str]


def read_scripts() -> list[Script]:
    scripts = []
    for part in TRIALS.read_text(encoding="utf-8").split("\n== ")[1:]:
        name, law, *lines = part.strip().splitlines()
        faults = dict(re.findall(r"^finds (.+?): (.+)$", part, re.MULTILINE))
        steps = [line for line in lines if not line.startswith("finds ")]
        scripts.append(Script(name, law, faults, steps))
    return scripts


def parse_fault(word: str) -> Fault:
    """Return the fault that `trials.txt` writes as `word`.

    >>> parse_fault("429+1")
    Fault(kind='status', status=429, code='', retry_after_s=1)
    """
    match = re.fullmatch(r"(\d{3})(?:\+(\d+))?(?::(\w+))?", word)
    if match is None and word in KINDS:
        return Fault(word)
    assert match is not None, f"no fault is called {word}"
    after = None if match[2] is None else int(match[2])
    return Fault("status", int(match[1]), match[3] or "", after)


def format_answer(answer: Json) -> str:
    """Return an answer as `trials.txt` has it.

    >>> format_answer({"answer": "accepted", "late": True})
    'late'
    """
    words = [answer["answer"], *([str(answer["code"])] if "code" in answer else [])]
    return "late" if answer.get("late") else " ".join(words)


def find_acknowledged(answers: Sequence[Said]) -> Claim:
    """Return the last acknowledged time, and the position that was acknowledged with a time."""
    times = dict[str, int]()
    position = Counter[int]()
    for answer in answers:
        if answer.is_acknowledged and answer.time:
            times["default"] = max(answer.time, times.get("default", answer.time))
            position |= Counter({int(segment): end for segment, end in answer.ends.items()})
    return Claim(times, position)


class Trial:
    """The stream of a script. The end of `stack` kills its programs."""

    def __init__(
        self, command: Sequence[str], controller: Calls, directory: Path, stack: ExitStack
    ) -> None:
        self._command = command
        self._directory = directory
        self._controller = controller
        self._programs: list[tuple[WriterProgram, Proxy]] = []
        self._open = stack
        self._background: list[threading.Thread] = []
        self._process: ServeProcess | None = None

    def judge(self, steps: Sequence[str]) -> list[str]:
        """Perform the steps, and return a sentence for each broken law."""
        broken: list[str] = []
        try:
            self._create()
            for step in steps:
                self._perform(step.split())
            for program, _ in self._programs:
                acknowledged_claims = {WRITER: find_acknowledged(program.said)}
                broken_laws = judge(members={WRITER: self._row()}, acknowledged=acknowledged_claims)
                broken += [str(broken_law.account) for broken_law in broken_laws]
        except (Broken, httpx.HTTPError) as error:
            broken.append(str(error))
        for program, proxy in self._programs:
            broken_laws = judge(said=program.said, requests=proxy.requests)
            broken += [str(broken_law.account) for broken_law in broken_laws]
        return list(dict.fromkeys(broken))

    def _perform(self, words: list[str]) -> None:  # noqa: C901, PLR0912 - a case for each step
        match words:
            case ["start", *options]:
                self._start(options)
            case ["older", *command]:
                self._ask(self._programs[0][0], " ".join(command))
            case ["faults", *faults]:
                self._proxy.planned = [parse_fault(fault) for fault in faults]
            case ["release"]:
                self._proxy.release()
            case ["away" | "back", *seconds]:
                self._proxy.is_away = words[0] == "away"
                if seconds:
                    self._begin(threading.Timer(float(seconds[0]), self._perform, [["back"]]))
            case ["until", *command]:
                self._ask_until(" ".join(command))
            case ["silence"]:
                self._expect_silence(time.monotonic(), QUIET_S)
            case ["crash"]:
                self._expect_silence(self._programs[-1][0].crash(), QUIET_S / 4)
            case ["peer", value]:
                self._note_peer(int(value))
            case ["left"]:
                if self._row()["state"] == "live":
                    raise Broken("the writer is still live, so the watermark waits for it")
            case ["row", *row]:
                self._expect_row(" ".join(row))
            case ["remove"]:
                self._controller.call("DELETE", f"/{self._stream}/writers/{WRITER}")
            case ["seal"]:
                self._controller.call("POST", f"/{self._stream}/seal", {})
            case ["remake"]:
                self._controller.call("DELETE", f"/{self._stream}")
                self._create()
            case ["own" | "kill" | "serve" | "restart" | "backup" | "restore"]:
                self._operate(words[0])
            case _:
                self._ask(self._programs[-1][0], " ".join(words))

    @property
    def _proxy(self) -> Proxy:
        return self._programs[-1][1]

    @property
    def _stream(self) -> str:
        return self._directory.name

    def _create(self) -> None:
        self._controller.create(self._stream, max_time_ahead_ms=None)
        self._note_peer(None)

    def _note_peer(self, time: int | None) -> None:
        note = {"writer": PEER, "time": time, "position": {"2": 1}}
        self._controller.call("POST", f"/{self._stream}/notes", {"notes": [note]})

    def _start(self, options: Sequence[str]) -> None:
        proxy = Proxy(self._controller.url)
        variables = dict(option.split("=") for option in options) | {
            "NOTED_TIME_URL": self._open.enter_context(serving(proxy)),
            "NOTED_TIME_STREAM": self._stream,
            "NOTED_TIME_WRITER": WRITER,
        }
        program = WriterProgram(self._command, variables, self._directory / "errors")
        self._programs.append((self._open.enter_context(program), proxy))

    def _ask(self, program: WriterProgram, step: str) -> None:
        command, _, wanted_answer = step.partition(" = ")
        answer = program.close() if command == "close" else program.ask(command)
        if command.startswith(("write ", "ends ")):
            right: Json = {"answer": "ok", "position": program.ends}
            is_right = answer == right
            wanted_answer = json.dumps(right)
        else:
            is_right = format_answer(answer) in (wanted_answer or "accepted").split(" | ")
        if not is_right:
            json_answer = json.dumps(answer)
            raise Broken(
                f"`{command}` is answered {json_answer}, not {wanted_answer or 'accepted'}"
            )
        if command == "join" and answer["answer"] != "refused":
            ends_of_programs = [program.ends.values() for program, _ in self._programs]
            words = ["ends"]
            for ends_of_segment in zip(*ends_of_programs, strict=True):
                words.append(str(max(ends_of_segment)))
            self._ask(program, " ".join(words))

    def _ask_until(self, step: str) -> None:
        until = time.monotonic() + RETURN_S
        while True:
            try:
                return self._ask(self._programs[-1][0], step)
            except Broken:
                if time.monotonic() > until:
                    raise

    def _expect_silence(self, since: float, seconds: float) -> None:
        time.sleep(seconds)
        for _, proxy in self._programs:
            sent_notes = [request.notes for request in proxy.requests if request.at > since]
            if sent_notes:
                raise Broken(f"the program sends requests when it should not: {sent_notes[0]}")

    def _row(self) -> Json:
        for row in self._controller.get(f"{self._stream}/writers")["writers"]:
            if row["writer"] == WRITER:
                return dict(row)
        raise Broken("the controller does not know the writer")

    def _expect_row(self, wanted_row: str) -> None:
        while self._background:
            self._background.pop().join()
        row = self._row()
        offsets = (str(row["position"].get(segment, 0)) for segment in self._programs[0][0].ends)
        found_row = " ".join([row["state"], str(row["times"].get("default", "-")), *offsets])
        if wanted_row != found_row:
            raise Broken(
                f"the controller has the writer as {found_row!r}, not {wanted_row!r} "
                "(state, time, offsets)"
            )

    def _begin(self, thread: threading.Thread) -> None:
        self._background.append(thread)
        thread.start()

    def _operate(self, step: str) -> None:
        """Do something to the trial's own controller."""
        database = self._directory / DATABASE
        backup = self._directory / BACKUP
        port = int(self._controller.url.rpartition(":")[2]) if self._process else 0
        if step in ("kill", "restart") and self._process:
            self._process.kill()
        if step == "restart":
            self._begin(threading.Thread(target=self._operate, args=("serve",)))
        if step in ("own", "serve"):
            self._process = self._open.enter_context(ServeProcess(self._directory, port=port))
            self._controller = Calls(self._process.ready().url)
        if step == "own":
            self._create()
        if step == "backup":
            with closing(sqlite3.connect(database)) as source, sqlite3.connect(backup) as target:
                source.backup(target)
            target.close()
        if step == "restore":
            for file in self._directory.glob(f"{DATABASE}-*"):
                file.unlink()
            shutil.copy(backup, database)
