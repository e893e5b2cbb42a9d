"""Waking a thread, without locks that a signal handler could find taken."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue


class Wakeup:
    """Lets one thread wait until another, or a signal handler in any, wakes it.

    Several calls before the wait wake it once. `threading.Event` cannot be used: it takes a lock,
    and a signal handler that sets it during another `set` of the same thread waits forever.
    Python's `SimpleQueue` guarantees that `put` is reentrant.

    >>> wakeup = Wakeup()
    >>> wakeup.wake(); wakeup.wake()
    >>> wakeup.wait(60), wakeup.wait(0)
    (True, False)
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._is_called = False

    def wake(self) -> None:
        """Wake the thread that waits, or that waits next."""
        if not self._is_called:
            self._is_called = True
            self._calls.put(None)

    def wait(self, seconds: float | None) -> bool:
        """Wait for a call; false when time is up, `None` waits forever.

        After it, the caller sees everything that was changed before any earlier call.
        """
        try:
            self._calls.get(timeout=None if seconds is None else max(0.0, seconds))
        except Empty:
            return False
        finally:
            self._is_called = False
        return True


class News:
    """Calls its listeners whenever something changed."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], None]] = set()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at every change from now on; it must return at once."""
        self._listeners.add(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Stop calling it."""
        self._listeners.discard(listener)

    def notify(self) -> None:
        """Call the listeners."""
        for listener in tuple(self._listeners):
            listener()
