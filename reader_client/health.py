"""How the threads or tasks of one client fare: what is logged of them, and when they try again."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noted_time.client import Outage, delay_s
from noted_time.values import ClientFailed, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from noted_time.client import Backoff
    from noted_time.values import NotedTimeError

logger = logging.getLogger("noted_time.reader")


class Health:
    """What keeps answers from one client is logged once, however many of its threads wait.

    `who` names the client; `fault` is what ended one of its threads or tasks for good.
    """

    def __init__(self, who: str) -> None:
        """Begin well."""
        self._who = who
        self._lock = threading.Lock()
        self._outage = Outage(who)
        self.fault: BaseException | None = None
        self._broken = ""

    def failed(self, name: str, error: NotedTimeError) -> None:
        """Learn that the thread or task of that name was refused, or not answered."""
        with self._lock:
            sentence = self._outage.failed(error, now=time.monotonic(), asker=name)
        _warn(sentence)

    def answered(self, name: str) -> None:
        """Learn that its questions were answered."""
        with self._lock:
            sentence = self._outage.answered(now=time.monotonic(), asker=name)
        _warn(sentence)

    def broke(self, name: str, fault: BaseException) -> None:
        """Learn that it ended by a fault of its own."""
        self._broken, self.fault = name, fault
        logger.error("%s: %s ended by a fault of the client", self._who, name, exc_info=fault)

    def check(self) -> None:
        """Raise `ClientFailed` where one of them ended by a fault of its own."""
        if self.fault is not None:
            kept = f"{self._who} follows nothing any more"
            why = f"{self._broken} ended by {type(self.fault).__name__}: {self.fault}"
            raise ClientFailed(f"{kept}: {why}; make a new one, and report this") from self.fault


@dataclass(frozen=True, slots=True)
class Pace:
    """When to try again after a failure."""

    backoff: Backoff
    chance: Callable[[], float]


class Attempts:
    """The attempts of the thread or task `name`.

    `failure` is what the last attempt raised, `None` after a success. `refusals` counts those that
    were refused, so that whoever waits can tell a fresh refusal from an old one. `had_answer` is
    whether any question was answered so far.
    """

    def __init__(self, name: str, pace: Pace, health: Health) -> None:
        """Begin without any."""
        self.failure: NotedTimeError | None = None
        self.refusals = 0
        self.had_answer = False
        self._name = name
        self._pace = pace
        self._health = health
        self._in_a_row = 0

    def succeeded(self) -> None:
        """Note a success."""
        self._in_a_row = 0
        self.failure = None
        self._health.answered(self._name)

    def failed(self, error: NotedTimeError) -> float:
        """Note a failure; returns after how many seconds to try again."""
        self.failure = error
        self.refusals += isinstance(error, Rejected)
        self._in_a_row += 1
        self._health.failed(self._name, error)
        return delay_s(self._pace.backoff, self._in_a_row, error, self._pace.chance())

    def ended_by(self, fault: BaseException) -> None:
        """Note that there will be no further attempt, by a fault of the client."""
        self._health.broke(self._name, fault)


def _warn(sentence: str | None) -> None:
    if sentence is not None:
        logger.warning("%s", sentence)
