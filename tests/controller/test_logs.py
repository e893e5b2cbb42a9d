from __future__ import annotations

import logging

from controller.service.logs import BoundedLog
from controller.service.repeats import LOGGED, PERIOD_S


def test_what_a_library_says_again_and_again_is_counted() -> None:
    """Warnings and errors, which strangers can cause; each message apart, news always."""
    now = 0.0
    bounded = BoundedLog(lambda: now)

    def logged(level: int, message: str, times: int) -> int:
        record = logging.LogRecord("uvicorn.error", level, "", 0, message, (), None)
        return sum(map(bounded.filter, times * [record]))

    seen = [
        logged(logging.WARNING, "invalid", 100),
        logged(logging.ERROR, "broken", LOGGED + 1),
        logged(logging.INFO, "news", 100),
    ]
    now = PERIOD_S
    dropped = [(each.outcome, each.count) for each in bounded.passed_over(now)]

    assert (seen, dropped, logged(logging.WARNING, "invalid", 2)) == (
        [LOGGED, LOGGED, 100],
        [("invalid", 90), ("broken", 1)],
        2,
    )
