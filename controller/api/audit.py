"""What the log says of calls that were refused or changed what others rely on; never a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import structlog

log = structlog.get_logger()

LONGEST = 300

Refused = Literal["unauthenticated", "forbidden", "foreign_origin"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: method and path without its query, the stream it names, and from where it came."""

    what: str
    stream: str
    remote: str


def refused(attempt: Attempt, outcome: Refused, who: str = "") -> None:
    """Log a call that was not let in; `who` is the id of a token that counts, if it showed one."""
    log.warning("audit", outcome=outcome, who=who, **_told(attempt))


def answered(attempt: Attempt, status: int, who: str) -> None:
    """Log an administrative call, with the status of its answer."""
    log.info("audit", outcome=status, who=who, **_told(attempt))


def _told(attempt: Attempt) -> dict[str, str]:
    return {
        "what": _plain(attempt.what),
        "stream": _plain(attempt.stream),
        "remote": attempt.remote,
    }


def _plain(text: str) -> str:
    """Return the text in one short line of ASCII, whatever a stranger put into it."""
    return ascii(text[:LONGEST])[1:-1]
