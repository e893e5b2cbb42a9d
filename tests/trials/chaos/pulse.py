"""The share of the machine that a trial got. A starved trial breaks laws of time."""

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Self

from tests.trials.actors.history import now
from tests.trials.actors.load import WRITER_TIMEOUT_S
from tools.trials.descendants import MARK, PROCESSES, find_marked

BEAT_S = 0.1
BEATS = 20
"""After how many beats the times of all processes are read."""

STARVED_S = WRITER_TIMEOUT_S / 2
"""Writers that do not run for this long may be excluded, and replicas may lose their leases."""

LEAST_SHARE = 0.2
"""Processes that run for less of the time that they are ready to run answer five times later."""


@dataclass(frozen=True, slots=True)
class Share:
    """For how long no process of a trial was run at most, and for how long they ran and waited.

    They waited when they were ready to run and the processors ran others. Where that cannot be
    read, both are 0.

    >>> Share(ran_s=12.0, waited_s=88.0).of_ready, Share().of_ready
    (0.12, 1.0)
    >>> Share(ran_s=12.0, waited_s=88.0).is_starved, Share(longest_s=STARVED_S).is_starved
    (True, True)
    """

    longest_s: float = 0.0
    ran_s: float = 0.0
    waited_s: float = 0.0

    @property
    def of_ready(self) -> float:
        """The part of their ready time that they ran."""
        ready_s = self.ran_s + self.waited_s
        return self.ran_s / ready_s if ready_s else 1.0

    @property
    def is_starved(self) -> bool:
        """Whether the machine ran them too late for laws of time."""
        return self.longest_s >= STARVED_S or self.of_ready < LEAST_SHARE

    def __str__(self) -> str:
        return (
            f"the processes of the trial ran for {self.ran_s:.0f} s and waited {self.waited_s:.0f} "
            f"s for a processor, and for {self.longest_s:.1f} s none was run"
        )


class Pulse:
    """Beats in a thread while a trial is held, and measures the share that the trial gets."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._times: dict[tuple[int, str], tuple[int, int]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    @property
    def share(self) -> Share:
        """The share so far."""
        ran, waited_s = (
            sum(times) / 1e9 for times in zip((0, 0), *self._times.values(), strict=True)
        )
        return Share(self._longest_s, ran, waited_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        last = now()
        for beat in count(1):
            if self._stopping.wait(BEAT_S):
                return
            self._longest_s = max(self._longest_s, now() - last - BEAT_S)
            if beat % BEATS == 0:
                self._look()  # which does not count as a pause
            last = now()

    def _look(self) -> None:
        """Read for how long the threads of all processes ran and waited until now (Linux)."""
        marks = os.environ.get(MARK, "").split()  # children with the mark end with this process
        for process in {os.getpid(), *(find_marked(marks[-1]) if marks else ())}:
            for file in (PROCESSES / str(process) / "task").glob("*/schedstat"):
                with suppress(OSError, ValueError):  # it has ended
                    ran, waited_ns, _ = map(int, file.read_text().split())
                    self._times[process, file.parent.name] = (ran, waited_ns)
