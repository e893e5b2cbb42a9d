"""One trial of a writer: a stream of its own, and programs that write to it through proxies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from noted_time.client import Json
from tests.conformance.laws import find_lost, find_violations
from tests.conformance.program import Broken, WriterProgram
from tests.conformance.proxy import Fault, Proxy, serving
from tests.support.calls import Calls
from tests.support.processes import ServeProcess

WRITER, PEER = "writer", "peer"
QUIET_S = 1.5
"""How long nothing may follow a final answer."""


class Driven:
    """A program and its proxy."""

    def __init__(self, program: WriterProgram, proxy: Proxy) -> None:
        self.program = program
        self.proxy = proxy

    def expect(self, command: str, *answers: str) -> Json:
        """Give a command. Raises `Broken` unless the answer is one of `answers`."""
        answer = self.program.ask(command)
        if answer["answer"] not in (answers or ("accepted",)):
            wanted = " or ".join(answers or ("accepted",))
            raise Broken(f"`{command}` is answered {answer}, not {wanted}")
        return answer

    def write(self, events: int) -> None:
        """Have it write events. Raises `Broken` unless it answers with the position."""
        answer = self.expect(f"write {events}", "ok")
        if answer.get("position") != {"0": self.program.end}:
            raise Broken(f"after {self.program.end} events `write` is answered {answer}")

    def expect_code(self, command: str, *codes: str) -> None:
        """Give a command. Raises `Broken` unless it is refused with one of the codes."""
        answer = self.expect(command, "refused")
        if answer.get("code") not in codes:
            raise Broken(f"`{command}` is answered {answer}, not with code {' or '.join(codes)}")

    def expect_silence(self) -> None:
        """Raises `Broken` if it sends a request within `QUIET_S`."""
        sent = len(self.proxy.requests)
        time.sleep(QUIET_S)
        if len(self.proxy.requests) > sent:
            notes = self.proxy.requests[sent].notes
            raise Broken(f"after a final answer it sends again: {notes}")


class Trial:
    """The stream of one check. The end of the block kills its programs.

    A peer has joined, so the watermark advances only if the peer notes, too.
    """

    def __init__(self, command: Sequence[str], controller: Calls, directory: Path) -> None:
        self.command = command
        self.controller = controller
        self.directory = directory
        self.stream = directory.name
        self.all: list[Driven] = []
        self._open = ExitStack()

    def create(self, **settings: object) -> None:
        self.controller.create(self.stream, max_time_ahead_ms=None, **settings)
        self.note_peer()

    def start(self, *, end: int = 0, joins: bool = True, **variables: str) -> Driven:
        """Start the program, which joins."""
        proxy = Proxy(self.controller.url)
        url = self._open.enter_context(serving(proxy))
        own = {"NOTED_TIME_URL": url, "NOTED_TIME_STREAM": self.stream, "NOTED_TIME_WRITER": WRITER}
        program = WriterProgram(self.command, own | variables, self.directory / "errors", end=end)
        driven = Driven(self._open.enter_context(program), proxy)
        self.all.append(driven)
        if joins:
            driven.expect("join")
        return driven

    def note_peer(self, time: int | None = None) -> None:
        note = {"writer": PEER, "time": time, "position": {"1": 1}}
        self.controller.call("POST", f"/{self.stream}/notes", {"notes": [note]})

    def row(self) -> Json:
        """Return what the controller knows of the writer."""
        rows = self.controller.get(f"{self.stream}/writers")["writers"]
        found = [row for row in rows if row["writer"] == WRITER]
        if not found:
            raise Broken("the controller does not know the writer")
        return dict(found[0])

    def expect_row(self, state: str, time: int | None, end: int) -> None:
        """Raises `Broken` if the controller knows another state, an earlier time or offset."""
        row = self.row()
        known, reached = row["times"].get("default"), row["position"].get("0", 0)
        if row["state"] != state or known != time or reached != end:
            found = f"{row['state']}, time {known}, offset {reached}"
            raise Broken(f"the controller has {found}, not {state}, time {time}, offset {end}")

    def judge(self, *, keeps: bool = True) -> None:
        """Raises `Broken` if a program broke a law. `keeps` says that the database lost nothing."""
        for each in self.all:
            broken = find_violations(each.program.said, each.proxy.requests)
            if keeps:
                broken += find_lost(each.program.said, self.row())
            if broken:
                raise Broken("; ".join(broken[:3]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class Restarting(Calls):
    """A controller of one trial, which is killed and started again on its port and database."""

    def __init__(self, directory: Path, open_: ExitStack) -> None:
        self._directory = directory
        self._process = ServeProcess(directory).ready()
        open_.callback(self.kill)
        super().__init__(self._process.url)

    @property
    def database(self) -> Path:
        return self._directory / "noted-time.db"

    def restart(self, between: Callable[[], object] = lambda: None) -> None:
        """Kill it, and start it again after `between`."""
        self.kill()
        between()
        port = int(self.url.rpartition(":")[2])
        self._process = ServeProcess(self._directory, port=port).ready()

    def kill(self) -> None:
        self._process.kill()


def status(number: int, code: str = "", *, retry_after_s: int | None = None) -> Fault:
    return Fault("status", number, code, retry_after_s)
