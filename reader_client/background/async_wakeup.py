"""Waking a task; apart from threads, since programs without tasks need no asyncio."""

from __future__ import annotations

import asyncio


class AsyncWakeup:
    """Lets one task wait until another wakes it, once for several calls before the wait."""

    def __init__(self) -> None:
        self._called = asyncio.Event()

    def wake(self) -> None:
        """Wake the task that waits, or that waits next."""
        self._called.set()

    async def wait(self, seconds: float | None) -> bool:
        """Wait for a call; false when time is up, `None` waits forever."""
        try:
            async with asyncio.timeout(seconds):
                await self._called.wait()
        except TimeoutError:
            return False
        finally:
            self._called.clear()
        return True
