"""Tells the waits of a client about changes."""

from __future__ import annotations

from collections.abc import Callable


class News:
    """Calls its listeners after each change."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], None]] = set()

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.add(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        self._listeners.discard(listener)

    def notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()
