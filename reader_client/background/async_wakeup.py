"""Wakes a task; only asyncio programs import it."""

from __future__ import annotations

import asyncio


class AsyncWakeup:
    """Lets one task wait until another wakes it."""

    def __init__(self) -> None:
        self._called = asyncio.Event()

    def wake(self) -> None:
        self._called.set()

    async def wait(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._called.wait()
        except TimeoutError:
            return False
        finally:
            self._called.clear()
        return True
