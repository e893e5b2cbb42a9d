"""How a trial waits for what nobody tells it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.chaos.history import now

if TYPE_CHECKING:
    from collections.abc import Callable


async def rested(stopping: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until told to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


async def comes_true(holds: Callable[[], bool], patience_s: float) -> bool:
    """Wait until it holds; returns whether it did in time."""
    until = now() + patience_s
    while not holds():
        if now() > until:
            return False
        await asyncio.sleep(0.05)
    return True
