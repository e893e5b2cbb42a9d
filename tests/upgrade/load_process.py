"""Real clients at work in a process of their own, and what became of their calls."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.processes import environment
from tests.support.waiting import PATIENCE_S, wait_until

Line = dict[str, Any]
PROGRAM = Path(__file__).with_name("load.py")


class Load:
    """Writers and readers of each of the streams; leaving the block ends them."""

    def __init__(self, directory: Path, urls: str, streams: Sequence[str]) -> None:
        """Start them."""
        file = directory / "load.jsonl"
        self._lines, self._rest = list[Line](), b""
        with file.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), urls, *streams],
                cwd=directory,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=output,
            )
        self._output = file.open("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def end(self) -> None:
        """Let the writers finish, and wait until they have."""
        self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0

    def lines(self, did: str) -> Iterator[Line]:
        """Return what was done of that kind, in the order in which it was."""
        *whole, self._rest = (self._rest + self._output.read()).split(b"\n")
        self._lines += map(json.loads, whole)
        return (line for line in self._lines if line["did"] == did)

    def moves(self, since: float) -> None:
        """Wait until each stream has three more notes acknowledged after that moment."""
        wait_until(lambda: min((len(at) for at in self._after(since).values()), default=0) >= 3)

    def _after(self, since: float) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {each: [] for each in self.acknowledged()}
        for line in self.lines("noted"):
            if line["at"] > since:
                found[line["stream"]].append(line["at"])
        return found

    def acknowledged(self) -> dict[str, int]:
        """Return the last time of each stream's writer that was acknowledged."""
        return {line["stream"]: line["time"] for line in self.lines("noted")}

    def pause(self, begun: float, ended: float) -> float:
        """Return the longest time without an acknowledged note of a writer between two moments."""
        at: defaultdict[str, list[float]] = defaultdict(lambda: [begun])
        for line in self.lines("noted"):
            if begun < line["at"] <= ended:
                at[line["stream"]].append(line["at"])
        return max(
            after - before
            for moments in at.values()
            for before, after in zip(moments, [*moments[1:], ended], strict=True)
        )
