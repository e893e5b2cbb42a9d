"""Whether the machine let this process run: what it did not do then proves nothing of a service."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from tests.chaos.faults import WRITER_TIMEOUT_S
from tests.chaos.history import now

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

BEAT_S = 0.1

STARVED_S = WRITER_TIMEOUT_S / 2
"""Writers that are not run for so long may be excluded, and replicas lose their leases, rightly."""

OF_TIME = frozenset(("answers", "nobody is excluded", "replicas live", "watermarks advance"))
"""The laws that rest on every process being run in time; all others hold at any speed."""


class Pulse:
    """Beats in a thread, and keeps the longest time in which it was not run."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self.longest_s = 0.0
        self._clock = clock
        self._stopping = threading.Event()
        self._last = clock()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def beat(self) -> None:
        """Notice how long ago the last beat should have been followed by this one."""
        at = self._clock()
        self.longest_s, self._last = max(self.longest_s, at - self._last - BEAT_S), at

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            self.beat()
