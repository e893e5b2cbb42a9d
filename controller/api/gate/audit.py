"""The audit log: refused calls and administrative calls, without secrets.

Anyone can cause refused calls, so they are counted, and logged only at debug level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import structlog

from controller.service.telemetry.metrics import refused_calls
from controller.service.tokens import Holder
from noted_time.answers.permissions import FULL_GRANT

log = structlog.get_logger()

ANONYMOUS_HOLDER = Holder("", FULL_GRANT)
LONGEST_TEXT = 300
FAILED_STATUS = 400

Outcome = Literal["unauthenticated", "forbidden", "foreign_origin", "foreign_host"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call, its path without the query, for the audit log."""

    what: str
    stream: str
    remote: str


def record_refusal(attempt: Attempt, outcome: Outcome, holder: Holder = ANONYMOUS_HOLDER) -> None:
    refused_calls.labels(outcome).inc()
    log.debug("audit", outcome=outcome, **_build_fields(attempt, holder))


def log_answer(attempt: Attempt, status: int, holder: Holder) -> None:
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
    """Return one short ASCII line, so that no caller can forge log lines."""
    return ascii(text[:LONGEST_TEXT])[1:-1]
