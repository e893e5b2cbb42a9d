"""A daemon thread, or a task, that repeats a step and backs off while the step fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from random import SystemRandom
from typing import TYPE_CHECKING

from noted_time.values import NotedTimeError
from reader_client.health import Attempts, Health, Pace
from reader_client.wakeup import AsyncWakeup, Wakeup

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from noted_time.client import Backoff


own_chance = SystemRandom().random
"""To spread retries, without touching the state of the program's `random`, which may be seeded."""

Step = Callable[[], bool]
"""Does one thing; returns whether there is more to do, ever."""


class Repeating:
    """Repeats `step` until it returns false or `stop` is called.

    `on_failure` is called after each failure. An error that is not a `NotedTimeError` is
    a fault of the client and ends the thread; `check` raises it.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that differs between threads
        self,
        name: str,
        step: Step,
        backoff: Backoff,
        chance: Callable[[], float],
        on_failure: Callable[[], None],
        *,
        health: Health | None = None,
    ) -> None:
        """Begin at rest; `start` starts the thread. `health` is shared by those of one client."""
        self._health = health or Health(name)
        self.attempts = Attempts(name, Pace(backoff, chance), self._health)
        self._step = step
        self._on_failure = on_failure
        self._pausing = Wakeup()
        self._backing_off = Wakeup()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def failure(self) -> NotedTimeError | None:
        """What the last step raised, `None` after a success."""
        return self.attempts.failure

    @property
    def fault(self) -> BaseException | None:
        """What ended the thread for good, `None` while it goes on."""
        return self._health.fault

    def check(self) -> None:
        """Raise `ClientFailed` where the thread ended by a fault of the client."""
        self._health.check()

    def pause(self, seconds: float) -> None:
        """Let the step wait until there is something to do (`wake`), at most that long."""
        if not self._stopping:
            self._pausing.wait(seconds)

    def wake(self) -> None:
        """Tell that there is something to do."""
        self._pausing.wake()

    def retry(self) -> None:
        """Tell that what failed may succeed now."""
        self._backing_off.wake()

    def stop(self) -> None:
        """Tell it to stop after the step under way."""
        self._stopping = True
        self._pausing.wake()
        self._backing_off.wake()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, which may be called by itself."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stopping and self._once():
                pass
        except Exception as fault:  # noqa: BLE001 - told to whoever calls the client next
            self.attempts.ended_by(fault)
            self._on_failure()

    def _once(self) -> bool:
        try:
            goes_on = self._step()
        except NotedTimeError as error:
            if not self._stopping:
                self._back_off(self.attempts.failed(error))
            return True
        self.attempts.succeeded()
        return goes_on

    def _back_off(self, delay_s: float) -> None:
        self._on_failure()
        self._backing_off.wait(delay_s)


class AsyncRepeating:
    """Does as `Repeating`, in a task of the running loop."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[bool]],
        pace: Pace,
        *,
        on_failure: Callable[[], None],
        health: Health,
    ) -> None:
        """Begin at rest; `start` starts the task."""
        self.attempts = Attempts(name, pace, health)
        self._name = name
        self._step = step
        self._on_failure = on_failure
        self._pausing = AsyncWakeup()
        self._backing_off = AsyncWakeup()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def pause(self, seconds: float) -> None:
        """Let the step wait until there is something to do (`wake`), at most that long."""
        await self._pausing.wait(seconds)

    def wake(self) -> None:
        """Tell that there is something to do."""
        self._pausing.wake()

    def retry(self) -> None:
        """Tell that what failed may succeed now."""
        self._backing_off.wake()

    async def stop(self) -> None:
        """End the task, amid whatever it awaits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while await self._once():
                pass
        except Exception as fault:  # noqa: BLE001 - told to whoever calls the client next
            self.attempts.ended_by(fault)
            self._on_failure()

    async def _once(self) -> bool:
        try:
            goes_on = await self._step()
        except NotedTimeError as error:
            delay_s = self.attempts.failed(error)
            self._on_failure()
            await self._backing_off.wait(delay_s)
            return True
        self.attempts.succeeded()
        return goes_on
