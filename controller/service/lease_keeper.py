"""Renews a controller's leases in a thread, so that a busy event loop does not lose them.

The event loop shows twice a second that it is alive. If it stands still, the thread renews for
another `LIFE_LASTS_MS`, and then other controllers take over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread

import structlog

from controller.service.clocks import Clocks
from controller.store.port import Leases, Store, StoreShared, StoreUnavailable

log = structlog.get_logger()

RENEW_EVERY_S = 0.5
SHOW_LIFE_EVERY_S = 0.5
LIFE_LASTS_MS = 10_000


class LeaseKeeper:
    """The thread that renews the leases of one controller.

    `extend` gets the steady clock of before a renewal. `give_up` is called once the leases are
    lost. The thread calls both.
    """

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        extend: Callable[[int], None],
        give_up: Callable[[], None],
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._extend = extend
        self._give_up = give_up
        self._alive_at = 0
        self._stopped = Event()
        self._thread: Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_failing = False
        self._shared: StoreShared | None = None

    def start(self) -> None:
        """Start the thread, unless it has been started or stopped."""
        if self._thread is None and not self._stopped.is_set():
            self._show_life()
            self._thread = Thread(target=self._run, name="leases", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    async def wait_until_stopped(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def heartbeat(self) -> tuple[Leases, bool]:
        """Return the owners, and whether the leases were renewed. Raises `StoreUnavailable`."""
        leases = self._store.heartbeat()
        is_renewed = self._renew()
        if self._shared is not None:
            raise self._shared
        return leases, is_renewed

    def _show_life(self) -> None:
        self._alive_at = self._clocks.steady_ms()
        self._timer = asyncio.get_running_loop().call_later(SHOW_LIFE_EVERY_S, self._show_life)

    def _run(self) -> None:
        while not self._stopped.wait(RENEW_EVERY_S):
            now_ms = self._clocks.steady_ms()
            if now_ms - self._alive_at < LIFE_LASTS_MS and self._renew():
                self._extend(now_ms)

    def _renew(self) -> bool:
        try:
            is_held = self._store.renew()
        except StoreShared as shared_error:
            self._shared = shared_error
            is_held = False
        except StoreUnavailable as error:  # the leases may last until the next try
            if not self._is_failing:
                log.warning("leases_not_renewed", error=str(error))
            self._is_failing = True
            return False
        self._is_failing = False
        if not is_held:
            self._give_up()
        return is_held
