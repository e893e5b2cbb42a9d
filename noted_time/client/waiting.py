"""Wait until a time is complete: judge, pause, and stop at the timeout.

The first answer comes at once, with the reason for waiting. For later ones a controller waits.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from noted_time.client.retrying import Backoff, delay_s, draw_chance
from noted_time.values import Conflict, Unreachable

Result = TypeVar("Result")

LONG_POLL_S = 30.0

PAUSE_S = 0.2
"""A controller that is stopping answers at once."""


class NotYet(Conflict):
    """The time is not complete; the message says why. Ask again after `pause_s`."""

    def __init__(self, why: str, pause_s: float = 1.0) -> None:
        super().__init__(why)
        self.pause_s = pause_s


class NothingKnown(NotYet):
    """The completeness is not known, and may not become known by waiting."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for `seconds` before the next question."""

    seconds: float
    why: Conflict | Unreachable
    failures: int
    is_news: bool


def build_performer(
    ask: Callable[[Any], Any], sleep: Callable[[Sleep], object] | None = None
) -> Callable[[Any], Any]:
    """Return a function that performs a step: a question, a partial function or a `Sleep`."""

    def perform(step: Any) -> Any:  # noqa: ANN401 - of each step
        if isinstance(step, Sleep):
            if sleep is None:
                return clocks.sleep(step.seconds)
            return sleep(step)
        if isinstance(step, partial):
            return step()
        return ask(step)

    return perform


def until_complete(
    judge: Callable[[int], Generator[Any, Any, Result]],
    timeout_s: float,
    *,
    clock: Callable[[], float] = monotonic,
    chance: Callable[[], float] = draw_chance,
) -> Generator[Any, Any, Result]:
    """Judge until the time is complete, for the last time at the timeout.

    `judge` takes how long a controller may wait (ms). Yields its steps, and `Sleep` between them.
    Raises its `Conflict` and `Unreachable` only at the timeout.

    >>> def judge(wait_ms):
    ...     yield f"wait {wait_ms}"
    >>> steps = until_complete(judge, 60.0, clock=lambda: 0.0)
    >>> next(steps), steps.throw(NotYet("it waits for lima")).seconds, next(steps)
    ('wait 0', 1.0, 'wait 30000')
    """
    deadline = clock() + timeout_s
    backoff = Backoff()
    why: Conflict | Unreachable
    failures = 0
    last_message = ""
    wait_ms = 0
    while True:
        try:
            return (yield from judge(wait_ms))
        except NotYet as error:
            failures = 0
            why = error
            pause_s = error.pause_s
        except (Conflict, Unreachable) as error:
            failures = failures + 1
            why = error
            pause_s = delay_s(backoff, failures, error, chance())
        remaining_s = deadline - clock()
        if remaining_s <= 0:
            raise why
        yield Sleep(min(pause_s, remaining_s), why, failures, str(why) != last_message)
        last_message = str(why)
        wait_ms = int(1000 * max(0.0, min(LONG_POLL_S, deadline - clock())))
