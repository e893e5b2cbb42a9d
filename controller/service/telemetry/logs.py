"""Configures the controller's structured log on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

from controller.aggregation.owned_streams import OwnedStreams
from controller.store.records import Change, ChangeSet

log = structlog.get_logger()

WARNING_ACTIONS = frozenset(("removed", "sealed"))

Format = Literal["auto", "console", "json"]


def configure(level: str, form: Format = "auto") -> None:
    """Log at `level` and above. `auto` is readable text on a terminal and JSON elsewhere."""
    pretty = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared_processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if pretty:
        # rich's would print all locals, and a batch has thousands
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=plain
        )
        last: list[Processor] = [renderer]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared_processors, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=shared_processors,
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("uvicorn.error", "asyncio"):  # any caller can cause these
        logging.getLogger(name).setLevel(logging.WARNING if level == "debug" else logging.ERROR)


def log_changes(streams: OwnedStreams, batch: ChangeSet) -> None:
    for change in batch.list_puts(Change):
        for stream in streams.find_by_ids((change.stream_id,)):
            facts = {"action": change.action, "writer": change.writer, "by": change.by}
            if change.action in WARNING_ACTIONS:
                log.warning("stream_changed", stream=stream.record.name, **facts)
            else:
                log.info("stream_changed", stream=stream.record.name, **facts)
