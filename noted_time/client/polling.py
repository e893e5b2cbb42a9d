"""Poll a log in a loop."""

from __future__ import annotations

import logging
import threading
import time as clocks
from abc import abstractmethod
from typing import Self

from noted_time.client.closing import Closing
from noted_time.values import ClientFailed, NotedTimeError, Recreated, Unreachable

STOP_S = 5.0

PATIENCE_S = 10.0


class PollingLoop(Closing):
    """Polls a log every `poll_ms`.

    `run` polls in the calling thread; a ``with`` block or `start` polls in a separate thread.

    - If the log cannot be read now, the loop logs this once (``noted_time.observer``) and retries.
    - If the log's ends went back (`Recreated`), the loop polls for ten more seconds.
    - Any other error ends the loop: `run`, `check` and `close` raise it.
    """

    def __init__(
        self, stream: str, poll_ms: int, role: str = "observer", verb: str = "noted"
    ) -> None:
        self.stream = stream
        self.poll_ms = poll_ms
        self._who = role
        self._does = verb
        self._log = logging.getLogger(f"noted_time.{role}")
        self.failure: NotedTimeError | None = None
        self._stopping = threading.Event()
        self._is_away = False
        self._succeeded_at = clocks.monotonic()
        self._back_since: float | None = None
        self._thread = threading.Thread(target=self._observe, name=f"noted {role}", daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Poll once and send due notes. Raises `Unreachable` if a retry may succeed."""

    @abstractmethod
    def check_refusals(self) -> None:
        """Raise an error if notes were refused and must end the loop."""

    def run(self) -> None:
        while not self._stopping.is_set():
            self._try_to_look()
            self._stopping.wait(self.poll_ms / 1000)

    def start(self) -> None:
        self._thread.start()

    @property
    def silent_s(self) -> float:
        """Return how long ago the last poll succeeded, in seconds."""
        return clocks.monotonic() - self._succeeded_at

    def stop(self) -> None:
        """Stop after the poll in progress."""
        self._stopping.set()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self.check()

    def __enter__(self) -> Self:
        self.start()
        return self

    def _observe(self) -> None:
        try:
            self.run()
        except NotedTimeError as error:
            self._fail(error)
        except Exception as fault:  # noqa: BLE001 - raised by `check`
            failure = ClientFailed(f"the {self._who} of {self.stream} failed: {fault!r}")
            failure.__cause__ = fault
            self._fail(failure)

    def _fail(self, error: NotedTimeError) -> None:
        self.failure = error
        self._log.error("the %s of %s stopped: %s", self._who, self.stream, error)

    def _try_to_look(self) -> None:
        try:
            self.look()
            self.check_refusals()
        except Recreated as error:
            self._look_again(error)
        except Unreachable as error:
            if not self._is_away:
                self._log.warning("nothing is %s of %s: %s", self._does, self.stream, error)
            self._is_away = True
        else:
            if self._is_away:
                self._log.info("%s can be read again", self.stream)
            self._is_away = False
            self._back_since = None
            self._succeeded_at = clocks.monotonic()

    def _look_again(self, error: Recreated) -> None:
        now = clocks.monotonic()
        self._back_since = self._back_since or now
        if error.is_certain or now - self._back_since >= PATIENCE_S:
            raise error
        self._log.info("%s; polling it again", error)
