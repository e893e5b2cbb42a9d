"""The calls that wait until a producer has begun."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from noted_time.values import Unreachable


class WaitingCalls:
    """The calls that wait, in their order, until their producer has begun; at most `most`."""

    def __init__(self, most: int) -> None:
        self.is_over = False
        """Whether calls are made at once."""
        self.delay: Unreachable | None = None
        """Why it has not begun."""
        self._most = most
        self._calls: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._making: int | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def keep(self, call: Callable[[], object], *, waits: bool = True) -> bool:
        """Have a call wait; returns `False` if it may be made at once.

        Raises `BufferError` if there are too many. While those that wait are made, this waits for
        them, or raises `BufferError` as well if it may not.
        """
        with self._lock:
            if self._making in (None, threading.get_ident()) and not self.is_over:
                if len(self._calls) >= self._most:
                    raise BufferError(f"{self._most} calls wait until the producer has begun")
                self._calls.append(call)
                return True
        if not (waits or self.is_over):
            raise BufferError("the calls that waited for the begin are being made")
        self._ended.wait()
        return False

    def put_off(self, why: Unreachable) -> bool:
        """Set why it has not begun; returns whether that is the first reason."""
        with self._lock:
            is_first, self.delay = self.delay is None, why
        return is_first

    def end(self) -> None:
        """Make the calls that wait; none of them may raise. Later ones are made at once."""
        with self._lock:
            self._making = threading.get_ident()
        while self._calls:
            self._calls[0]()
            self._calls.popleft()
        self.is_over = True
        self._ended.set()

    def fail(self) -> None:
        """Wake those who wait: it will not begin."""
        self._ended.set()

    def wait(self, timeout_s: float | None) -> None:
        """Wait for the end, or the failure; not in the thread that makes the calls.

        `None` waits without limit.
        """
        if self._making != threading.get_ident():
            self._ended.wait(timeout_s)
