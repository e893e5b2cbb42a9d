"""Repeats the steps of a client in threads or tasks, with backoff after failures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from noted_time.client import Backoff, Outage, Question, delay_s, draw_chance, run
from noted_time.client.wakeup import Wakeup
from noted_time.values import ClientFailed, NotedTimeError, Rejected
from reader_client.protocol.questions import Pause, Steps

if TYPE_CHECKING:
    from reader_client.background.async_wakeup import AsyncWakeup

logger = logging.getLogger("noted_time.reader")

Waker = TypeVar("Waker", Wakeup, "AsyncWakeup")


@dataclass(frozen=True, slots=True)
class BackOff:
    """A wait before the next attempt, which `retry` ends early."""

    seconds: float


class Stopped(Exception):
    """Ends a thread."""


class Health:
    """The state of a client's threads or tasks, which logs an outage once."""

    def __init__(self, client: str, backoff: Backoff, on_failure: Callable[[], None]) -> None:
        self.backoff = backoff
        self.on_failure = on_failure
        self.fault: BaseException | None = None
        self._client = client
        self._lock = threading.Lock()
        self._outage = Outage(client)
        self._broken = ""

    def record_failure(self, name: str, error: NotedTimeError) -> None:
        with self._lock:
            sentence = self._outage.record_failure(error, now=time.monotonic(), asker=name)
        _warn(sentence)

    def record_answer(self, name: str) -> None:
        with self._lock:
            sentence = self._outage.record_answer(now=time.monotonic(), asker=name)
        _warn(sentence)

    def record_fault(self, name: str, fault: BaseException) -> None:
        self._broken = name
        self.fault = fault
        logger.error("%s: %s ended by a fault of the client", self._client, name, exc_info=fault)

    def check(self) -> None:
        if self.fault is not None:
            raise ClientFailed(
                f"{self._client} no longer follows: {self._broken} ended by "
                f"{type(self.fault).__name__}: {self.fault}; create a new one, and report this"
            ) from self.fault


class Repeated(Generic[Waker]):
    """A thread or task that repeats a step, and the outcomes of its attempts."""

    def __init__(self, name: str, health: Health, waker: type[Waker]) -> None:
        self.failure: NotedTimeError | None = None
        self.refusals = 0
        self.had_answer = False
        self._name = name
        self._health = health
        self._in_a_row = 0
        self._pausing: Waker = waker()
        self._backing_off: Waker = waker()

    def wake(self) -> None:
        self._pausing.wake()

    def retry(self) -> None:
        self._backing_off.wake()

    def _repeat(
        self, step: Callable[[], Steps]
    ) -> Generator[Question[Any] | Pause | BackOff, Any, None]:
        """Repeat a step until it returns false; any error but `NotedTimeError` is a fault."""
        try:
            has_more = True
            while has_more:
                try:
                    has_more = yield from step()
                    self.failure = None
                    self._in_a_row = 0
                    self._health.record_answer(self._name)
                except NotedTimeError as error:
                    delay = self._record_failure(error)
                    self._health.on_failure()
                    yield BackOff(delay)
        except Stopped:
            return
        except Exception as fault:  # noqa: BLE001 - raised by every later call of the client
            self._health.record_fault(self._name, fault)
            self._health.on_failure()

    def _record_failure(self, error: NotedTimeError) -> float:
        self.failure = error
        self.refusals += isinstance(error, Rejected)
        self._in_a_row += 1
        self._health.record_failure(self._name, error)
        return delay_s(self._health.backoff, self._in_a_row, error, draw_chance())


class Repeating(Repeated[Wakeup]):
    """A daemon thread that repeats a step until `stop`."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Steps],
        ask: Callable[[Question[Any]], object],
        health: Health,
    ) -> None:
        super().__init__(name, health, Wakeup)
        self._step = step
        self._ask = ask
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self.wake()
        self.retry()

    def join(self, timeout_s: float) -> None:
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        run(self._repeat(self._step), self._perform)

    def _perform(self, effect: Question[Any] | Pause | BackOff) -> object:
        if self._stopping:
            raise Stopped
        if isinstance(effect, Question):
            try:
                answer = self._ask(effect)
            except NotedTimeError:
                if self._stopping:
                    raise Stopped from None
                raise
            self.had_answer = True
            return answer
        waker = self._pausing if isinstance(effect, Pause) else self._backing_off
        waker.wait(effect.seconds)
        return None


def _warn(sentence: str | None) -> None:
    if sentence is not None:
        logger.warning("%s", sentence)


Begin = Callable[[str, Callable[[], Steps]], Repeated[Any]]
