"""How the controller writes its log: structured, to standard error."""

from __future__ import annotations

import logging
import sys
from time import monotonic
from typing import TYPE_CHECKING, Literal

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import Processor

MINUTE_S = 60.0

Format = Literal["auto", "console", "json"]


def configure(level: str, form: Format = "auto") -> None:
    """Log at `level` and above; `auto` is for people on a terminal and JSON elsewhere."""
    pretty = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if pretty:
        # not rich's traceback: it prints every local, and a batch has thousands of them
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=plain
        )
        last: list[Processor] = [renderer]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=shared,
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.error").addFilter(OncePerMinute())


class OncePerMinute(logging.Filter):
    """Drops a warning that was logged within the last minute; any caller can cause them at will."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        """Begin without any."""
        super().__init__()
        self._now = now
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        if record.levelno != logging.WARNING:
            return True
        last, now = self._logged.get(record.msg, -MINUTE_S), self._now()
        if now - last < MINUTE_S:
            return False
        self._logged[record.msg] = now
        return True
