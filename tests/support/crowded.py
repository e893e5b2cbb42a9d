"""A served controller that can be kept busy, so that its intake is full."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controller.service.limits import Limits
from tests.support.controllers import WatchedMemory
from tests.support.served import Served
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 20


class Crowded(Served):
    """A controller that takes on one request besides those it commits."""

    def __init__(self) -> None:
        self._watched = WatchedMemory()
        super().__init__(self._watched, Limits(waiting_requests=1))

    @contextmanager
    def full(self, stream: str) -> Iterator[None]:
        """Keep a commit up meanwhile, and one request waiting for the next."""
        watch = self._watched.watch
        watch.open.clear()
        attempts = watch.attempts
        writers = [self._noting(stream, "committing")]
        try:
            eventually(lambda: watch.attempts, attempts + 1)
            writers.append(self._noting(stream, "waiting"))
            eventually(lambda: self._controller._committer.depth, 1)
            yield
        finally:
            watch.open.set()
            for writer in writers:
                writer.join(PATIENCE_S)

    def _noting(self, stream: str, writer: str) -> threading.Thread:
        notes = {"notes": [{"writer": writer}, {"writer": writer, "state": "idle"}]}
        thread = threading.Thread(target=self.call, args=("POST", f"/{stream}/notes", notes))
        thread.start()
        return thread
