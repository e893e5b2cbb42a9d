"""Waiting until a time is complete: when to look, how long to pause, and when to give up.

The first look is at once, so that its reason is known; controllers wait with the answer to each
later one. What can pass is looked at again until time is up, with backoff if it is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from noted_time.client.retrying import Backoff, delay_s, draw_chance
from noted_time.values import Conflict, NotCompleteYet, Unreachable

LONG_POLL_S = 30.0
"""How long a controller waits with its answer at most."""

PAUSE_S = 0.2
"""Pause between two questions: a controller that stops answers the first at once."""


class NotYet(Conflict):
    """It is not complete: the sentence says why. The next look is `pause_s` later."""

    def __init__(self, why: str, pause_s: float = 1.0) -> None:
        super().__init__(why)
        self.pause_s = pause_s


class NothingKnown(NotYet):
    """It is not known up to when it is complete, and waiting alone need not change that."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Look whether it is complete; a controller may wait `wait_ms` with its answer.

    The answer is what was waited for, or it is raised why there is none.
    """

    wait_ms: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for `seconds`: `why` is what the last look raised, after `failures` faults in a row.

    `is_news` if the sentence is another one than that of the look before.
    """

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
    """Look until it is complete, and return the answer; the last look is when time is up.

    Raises what a look raises: at once, or when time is up if it can pass (`Conflict`,
    `Unreachable`).

    >>> steps = until_complete(60.0, clock=lambda: 0.0)
    >>> next(steps), steps.throw(NotCompleteYet(7, 5)).seconds, next(steps)
    (Poll(wait_ms=0), 0.2, Poll(wait_ms=30000))
    """
    deadline, backoff = clock() + timeout_s, Backoff()
    why: Conflict | Unreachable
    failures, said, wait_ms = 0, "", 0
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
        yield Sleep(min(pause_s, left_s), why, failures, str(why) != said)
        said = str(why)
        wait_ms = int(1000 * max(0.0, min(LONG_POLL_S, deadline - clock())))
