"""A base class for context managers that call `close` on exit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from typing import Self

from noted_time.values import NotedTimeError


class Closing(ABC):
    """Closes at the end of a ``with`` block, whose error precedes a `NotedTimeError` of `close`."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        with nullcontext() if error is None else suppress(NotedTimeError):
            self.close()
