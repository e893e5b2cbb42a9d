"""How the controller writes its log: structured, to standard error."""

from __future__ import annotations

import logging
import sys
from time import monotonic
from typing import TYPE_CHECKING, Literal

import structlog

from controller.service.repeats import PassedOver, Repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from structlog.typing import Processor

log = structlog.get_logger()

LONGEST = 300

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
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_bounded)


class BoundedLog(logging.Filter):
    """Drops what a library logged often within the last minute; any caller can cause it at will."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        """Begin without any."""
        super().__init__()
        self._now = now
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it; how many were dropped is reported at the end of their minute."""
        if record.levelno < logging.WARNING:
            return True
        now = self._now()
        _report(self.passed_over(now))
        return self._repeats.is_logged(record.name, str(record.msg)[:LONGEST], now)

    def passed_over(self, now: float) -> list[PassedOver]:
        """Return how many of each message were dropped in the minutes that are over."""
        return self._repeats.ended(now)


_bounded = BoundedLog()


def report_passed_over(now: float) -> None:
    """Log how many messages of libraries were dropped in the minutes that are over."""
    _report(_bounded.passed_over(now))


def _report(dropped: Iterable[PassedOver]) -> None:
    for each in dropped:
        log.warning("messages_passed_over", message=each.outcome.strip(), count=each.count)
