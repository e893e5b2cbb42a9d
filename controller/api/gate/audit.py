"""The audit log: calls that were refused, and calls that changed what others rely on; no secrets.

Every administrative call that did something is logged. Anyone can cause any number of refused
calls, which must not fill the disk: they are counted, and logged at debug.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import structlog

from controller.service.permissions import FULL_GRANT
from controller.service.telemetry.metrics import refused_calls
from controller.service.tokens import Holder

log = structlog.get_logger()

ANONYMOUS_HOLDER = Holder("", FULL_GRANT)
LONGEST_TEXT = 300
FAILED_STATUS = 400

Outcome = Literal["unauthenticated", "forbidden", "foreign_origin", "foreign_host"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: method and path without its query, the stream it names, and from where it came."""

    what: str
    stream: str
    remote: str


def record_refusal(attempt: Attempt, outcome: Outcome, holder: Holder = ANONYMOUS_HOLDER) -> None:
    """Count a call that was refused; `holder` is that of the valid token that it showed, if any."""
    refused_calls.labels(outcome).inc()
    log.debug("audit", outcome=outcome, **_build_fields(attempt, holder))


def log_answer(attempt: Attempt, status: int, holder: Holder) -> None:
    """Log an administrative call with the status of its answer, a failed one at debug."""
    level = log.info if status < FAILED_STATUS else log.debug
    level("audit", outcome=status, **_build_fields(attempt, holder))


def _build_fields(attempt: Attempt, holder: Holder) -> dict[str, str]:
    return {
        "who": holder.token_id,
        "label": holder.label,
        "what": _sanitize(attempt.what),
        "stream": _sanitize(attempt.stream),
        "remote": attempt.remote,
    }


def _sanitize(text: str) -> str:
    """Return the text in one short line of ASCII, whatever a caller put into it."""
    return ascii(text[:LONGEST_TEXT])[1:-1]
