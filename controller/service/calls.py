"""How the committer calls its store: one call at a time, none of which holds the loop up.

Calls run on a thread of their own, so that a slow disk or a locked file holds nobody else up. Yet
under load the loop and that thread take the interpreter's lock from each other at every row: where
the database is this process's own and the last commit was quick, a batch of many small requests is
committed in the loop itself, which saves an eighth of the CPU time of a note. A commit that turns
out slow holds the loop up once.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.service.batches import Drafted
    from controller.store.port import Batch, Store

QUICK_S = 0.010
"""A commit within this time lets the next one be made in the loop."""

QUICK_ROWS = range(16, 257)
"""The sizes of a batch that may be: below there is no load, above no hurry."""


class StoreCalls:
    """The calls of one store, in their order."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        """Call `wake` in the loop whenever a batch is written, or failed to be."""
        self._store = store
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._under_way = 0
        self._last_commit_s = QUICK_S

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - passes on what it is given
        """Call the store and wait for what it returns."""
        self._under_way += 1
        return await self._run(call, *arguments)

    def write(self, drafted: Drafted, batch: Batch) -> None:
        """Begin to commit a batch; it says itself when it is done, which may be at once."""
        drafted.start(batch)
        if self._is_quick(batch):
            self._commit(drafted, batch)
            return
        self._under_way += 1
        self._run(self._commit, drafted, batch).add_done_callback(lambda _: self._wake())

    def close(self) -> None:
        """Wait for the last call."""
        self._thread.shutdown()

    def _is_quick(self, batch: Batch) -> bool:
        return (
            self._store.local
            and batch.records in QUICK_ROWS
            and self._last_commit_s < QUICK_S
            and not self._under_way
        )

    def _commit(self, drafted: Drafted, batch: Batch) -> None:
        drafted.attempt(self._store.commit, batch)
        self._end(drafted)

    def _end(self, drafted: Drafted) -> None:
        drafted.end()
        self._last_commit_s = drafted.took_s

    def _run(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - as above
        loop = asyncio.get_running_loop()
        running = self._thread.submit(call, *arguments)
        running.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count_down))
        return asyncio.wrap_future(running)

    def _count_down(self) -> None:
        self._under_way -= 1
