"""Wait until a time is complete: poll, pause, and stop at the timeout.

The first poll returns at once, with the reason for waiting. Later polls are long polls.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from noted_time.client.retrying import Backoff, delay_s, draw_chance
from noted_time.values import Conflict, NotCompleteYet, Unreachable

LONG_POLL_S = 30.0

PAUSE_S = 0.2
"""A controller that is stopping answers polls at once."""


class NotYet(Conflict):
    """The time is not complete; the message says why. Poll again after `pause_s`."""

    def __init__(self, why: str, pause_s: float = 1.0) -> None:
        super().__init__(why)
        self.pause_s = pause_s


class NothingKnown(NotYet):
    """The completeness is not known, and may not become known by waiting."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Poll once. The controller may wait `wait_ms` before it answers."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for `seconds` before the next poll."""

    seconds: float
    why: Conflict | Unreachable
    failures: int
    is_news: bool


def until_complete(
    timeout_s: float,
    *,
    clock: Callable[[], float] = monotonic,
    chance: Callable[[], float] = draw_chance,
) -> Generator[Poll | Sleep, Any, Any]:
    """Poll until the time is complete. The last poll is at the timeout.

    Resume with its answer or error. Raises `Conflict` and `Unreachable` only at the timeout.

    >>> steps = until_complete(60.0, clock=lambda: 0.0)
    >>> next(steps), steps.throw(NotCompleteYet(7, 5)).seconds, next(steps)
    (Poll(wait_ms=0), 0.2, Poll(wait_ms=30000))
    """
    deadline, backoff = clock() + timeout_s, Backoff()
    why: Conflict | Unreachable
    failures, last_message, wait_ms = 0, "", 0
    while True:
        try:
            return (yield Poll(wait_ms))
        except (NotCompleteYet, NotYet) as error:
            failures, why = 0, error
            pause_s = error.pause_s if isinstance(error, NotYet) else PAUSE_S
        except (Conflict, Unreachable) as error:
            failures, why = failures + 1, error
            pause_s = delay_s(backoff, failures, error, chance())
        left_s = deadline - clock()
        if left_s <= 0:
            raise why
        yield Sleep(min(pause_s, left_s), why, failures, str(why) != last_message)
        last_message = str(why)
        wait_ms = int(1000 * max(0.0, min(LONG_POLL_S, deadline - clock())))
