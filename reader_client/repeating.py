"""A daemon thread that repeats a step, and backs off while the step fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from noted_time.errors import NotedTimeError, Unreachable

if TYPE_CHECKING:
    from noted_time.backoff import Backoff


Step = Callable[[], bool]
"""Does one thing; returns whether there is more to do, ever."""


class Repeating:
    """Repeats `step` until it returns false or `stop` is called.

    `failure` is what the last step raised, `None` after a success; `on_failure` is called after
    each.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        backoff: Backoff,
        chance: Callable[[], float],
        on_failure: Callable[[], None],
    ) -> None:
        """Begin at rest; `start` starts the thread."""
        self.failure: NotedTimeError | None = None
        self._step = step
        self._backoff = backoff
        self._chance = chance
        self._on_failure = on_failure
        self._stopped = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Tell it to stop after the step under way."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, which may be called by itself."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        goes_on = True
        while goes_on and not self._stopped.is_set():
            goes_on = self._once()

    def _once(self) -> bool:
        try:
            goes_on = self._step()
        except NotedTimeError as error:
            return self._fail(error)
        except Exception as error:  # noqa: BLE001 - an answer of another shape ends no thread
            return self._fail(Unreachable(f"not understood: {type(error).__name__}: {error}"))
        self._failures = 0
        self.failure = None
        return goes_on

    def _fail(self, error: NotedTimeError) -> bool:
        self.failure = error
        self._failures += 1
        self._on_failure()
        asked = error.retry_after_s if isinstance(error, Unreachable) else None
        delay = self._backoff.delay_s(self._failures, chance=self._chance(), retry_after_s=asked)
        return not self._stopped.wait(delay)


Repeat = Callable[[str, Step, Callable[[], None]], Repeating]
"""Makes a thread of a name and a step; the last is called after each failure."""
