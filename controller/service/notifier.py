"""How long polls for marks are woken."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class LongPollNotifier:
    """Wakes the long polls of a stream when it has new marks, and all of them at shutdown."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._count = 0
        self._shut_down = False

    def __len__(self) -> int:
        return self._count

    async def wait(self, stream_id: str, seconds: float) -> bool:
        """Wait until the stream is notified; false when `seconds` passed or after the shutdown.

        No await lies between the caller's look at the marks and the entry in the list, so no
        notification is lost.
        """
        if self._shut_down:
            return False
        woken = asyncio.get_running_loop().create_future()
        self._waiting[stream_id].add(woken)
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                await woken
        except TimeoutError:
            return False
        finally:
            self._forget(stream_id, woken)
        return not self._shut_down

    def notify(self, stream_id: str) -> None:
        """Wake all that wait for the stream."""
        for woken in self._waiting.get(stream_id, ()):
            if not woken.done():
                woken.set_result(None)

    def notify_all(self) -> None:
        """Wake all, to read again."""
        for stream_id in self._waiting:
            self.notify(stream_id)

    def shutdown(self) -> None:
        """Wake all for the last time."""
        self._shut_down = True
        self.notify_all()

    def _forget(self, stream_id: str, woken: asyncio.Future[None]) -> None:
        waiting = self._waiting[stream_id]
        waiting.discard(woken)
        self._count -= 1
        if not waiting:
            del self._waiting[stream_id]
