"""An event loop whose time jumps to the next thing that is due: no sleep, no thread, no socket."""

from __future__ import annotations

import asyncio
import selectors
from collections import defaultdict
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

process = ContextVar[str]("process", default="")
"""Which simulated process runs; tasks and calls in an executor belong to their caller."""


class Stuck(Exception):
    """Nothing is due, and nothing will be."""


class _Jumping(selectors.SelectSelector):
    """Waits by moving the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self.now += max(0.0, timeout)
        return []


class _Call:
    """A callback that waits while its process stands still."""

    __slots__ = ("args", "callback", "handle", "loop")
    handle: asyncio.Handle

    def __init__(self, loop: VirtualLoop, callback: Callable[..., object], args: Any) -> None:  # noqa: ANN401 - as asyncio's
        self.loop = loop
        self.callback = callback
        self.args = args

    def __call__(self) -> None:
        if self.handle.cancelled():
            return
        waiting = self.loop.frozen.get(process.get())
        if waiting is None:
            self.callback(*self.args)
        else:
            waiting.append((self, copy_context()))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Calls in an executor take effect, and are answered, after delays that `delay` chooses.

    It is given the process that calls. If that process is killed or stands still meanwhile,
    `reaches()` decides whether the call was sent before. `asked_at` is when the call under way was
    asked for, and `spent` how long a process waited for calls by name. `frozen` has the processes
    that stand still, each with the callbacks that became due.
    """

    def __init__(self, delay: Callable[[str], float], reaches: Callable[[], bool]) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self._delay = delay
        self._reaches = reaches
        self.asked_at = 0.0
        self.spent: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.frozen: dict[str, list[tuple[_Call, Context]]] = {}
        self._tasks: dict[str, dict[asyncio.Task[Any], None]] = {}
        self.set_task_factory(self._task)

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._jumping.now

    def freeze(self, name: str) -> None:
        """Pause a process until `thaw`, while its clocks advance."""
        self.frozen.setdefault(name, [])

    def thaw(self, name: str) -> None:
        """Run what became due in a process while it stood still, in that order."""
        for call, context in self.frozen.pop(name, ()):
            super().call_soon(call, context=context)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.Handle:
        call = _Call(self, callback, args)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        call = _Call(self, callback, args)
        call.handle = handle = super().call_at(when, call, context=context)
        return handle

    def kill(self, name: str) -> None:
        """End all tasks of a process at once."""
        self.thaw(name)
        for task in [*self._tasks.pop(name, ())]:  # the oldest first
            task.cancel()

    def run_in_executor(  # type: ignore[override]
        self,
        executor: object,  # noqa: ARG002 - there is none
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401
    ) -> asyncio.Future[Any]:
        """Make a call after a delay, and answer it after another one."""
        answer = self.create_future()
        caller = process.get()
        asked_at = self.time()
        name = getattr(func, "__name__", "")
        own_context = copy_context()
        elsewhere = copy_context()
        elsewhere.run(process.set, "")

        def give(resolve: Callable[[Any], None], outcome: object) -> None:
            if not answer.done():
                self.spent[caller, name] += self.time() - asked_at
                resolve(outcome)

        def call() -> None:
            if answer.cancelled() and not self._reaches():
                return
            if caller in self.frozen and not self._reaches():
                self.call_soon(elsewhere.run, call, context=own_context)
                return
            self.asked_at = asked_at
            try:
                outcome = func(*args)
                resolve = answer.set_result
            except Exception as error:  # noqa: BLE001 - whatever the call raises
                outcome = error
                resolve = answer.set_exception
            self.call_later(self._delay(caller), give, resolve, outcome, context=own_context)

        self.call_later(self._delay(caller), call, context=elsewhere)
        return answer

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Any,  # noqa: ANN401 - as asyncio's
        **options: Any,  # noqa: ANN401
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, **options)
        own_tasks = self._tasks.setdefault(process.get(), {})
        own_tasks[task] = None
        task.add_done_callback(lambda ended_task: own_tasks.pop(ended_task, None))
        return task
