"""Wakes a thread, even from a signal handler."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Wakeup:
    """Lets one thread wait until another thread or a signal handler wakes it.

    `SimpleQueue.put` is reentrant; `threading.Event` takes a lock, so a handler would wait forever.

    >>> wakeup = Wakeup()
    >>> wakeup.wake(); wakeup.wake()
    >>> wakeup.wait(60), wakeup.wait(0)
    (True, False)
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._is_called = False

    def wake(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._calls.put(None)

    def wait(self, seconds: float | None) -> bool:
        try:
            self._calls.get(timeout=None if seconds is None else max(0.0, seconds))
        except Empty:
            return False
        finally:
            self._is_called = False
        return True
