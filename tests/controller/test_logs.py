from __future__ import annotations

import logging

from controller.service.logs import OncePerMinute


def test_a_warning_is_logged_once_a_minute() -> None:
    """However often strangers cause it; errors and other warnings are logged each time."""
    now = 0.0
    once = OncePerMinute(lambda: now)

    def logs(level: int, message: str) -> bool:
        return once.filter(logging.LogRecord("uvicorn.error", level, "", 0, message, (), None))

    seen = [logs(logging.WARNING, "invalid") for _ in range(3)]
    others = [logs(logging.WARNING, "other"), *(logs(logging.ERROR, "broken") for _ in range(2))]
    now = 60.0

    assert (seen, others, logs(logging.WARNING, "invalid")) == (
        [True, False, False],
        [True, True, True],
        True,
    )
