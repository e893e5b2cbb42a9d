"""What is shown of the stream `s` by who follows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.support.controllers import until

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from controller.service.following import Following
    from tests.replicas.conftest import Written

FOR_EVER_S = 60.0


async def seqs(following: Following, after: int = 0) -> list[int]:
    """Return the seqs of the marks of `s` that are shown now."""
    stream = await following.stream("s")
    return [each.seq for each in stream.history(None).after(after, 10_000)]


async def poll(following: Following, bell: Bell, after: int) -> list[int]:
    """Wait for marks of `s` after a seq, as a long poll does; returns their seqs."""
    while True:
        stream = await following.stream("s")
        found = stream.history(None).after(after, 10_000)
        if found or not await bell.wait(stream.id, FOR_EVER_S):
            return [each.seq for each in found]


async def polling(following: Following, bell: Bell, after: int = 3) -> asyncio.Task[list[int]]:
    """Return a poll that has begun to wait."""
    before = len(bell)
    begun = asyncio.create_task(poll(following, bell, after))
    await until(lambda: len(bell) > before)
    return begun


async def stopped(following: Following, written: Written) -> asyncio.Task[list[int]]:
    """Return the reader of a reading that has found the marks there are, and stands still."""
    before = written.readings
    written.open.clear()
    reader = asyncio.create_task(seqs(following))
    await until(lambda: written.readings > before)
    return reader
