"""The audit log: calls that were refused, and calls that changed what others rely on; no secrets.

Every administrative call that did something is logged. Refused calls come in any number, from
anybody, and must not fill the disk: of each remote address and outcome the first few of a minute
are logged and the others counted, see `Repeats`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Literal

import structlog

from controller.service import logs
from controller.service.repeats import Repeats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = structlog.get_logger()

LONGEST = 300
FAILED = 400

REPORT_EVERY_S = 5.0
"""How soon after its minute the log says how many refusals were only counted."""

Outcome = Literal["unauthenticated", "forbidden", "foreign_origin", "foreign_host"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: method and path without its query, the stream it names, and from where it came."""

    what: str
    stream: str
    remote: str


_refusals = Repeats()
"""Of the process, whose log is one, whatever the number of its gates."""


def refused(attempt: Attempt, outcome: Outcome, who: str = "", *, now: float | None = None) -> None:
    """Log a call that was refused, unless many like it were logged within a minute.

    `who` is the id of the valid token that it showed, if any; `now` is in seconds, by default those
    of a clock that never goes back.
    """
    now = monotonic() if now is None else now
    report_passed_over(now)
    if _refusals.is_logged(attempt.remote, outcome, now):
        log.warning("audit", outcome=outcome, who=who, **_fields(attempt))


def answered(attempt: Attempt, status: int, who: str) -> None:
    """Log an administrative call, with the status of its answer; one in vain as if refused."""
    now = monotonic()
    report_passed_over(now)
    if status < FAILED or _refusals.is_logged(attempt.remote, str(status), now):
        log.info("audit", outcome=status, who=who, **_fields(attempt))


def report_passed_over(now: float) -> None:
    """Log how much was only counted in the minutes that are over: refusals, and of the server."""
    for passed in _refusals.ended(now):
        log.warning("refusals_passed_over", **asdict(passed))
    logs.report_passed_over(now)


@asynccontextmanager
async def watching() -> AsyncIterator[None]:
    """Meanwhile, report in time what was passed over, also where no further call comes."""
    watch = asyncio.create_task(_watch(), name="audit")
    try:
        yield
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        report_passed_over(inf)


async def _watch() -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        report_passed_over(monotonic())


def _fields(attempt: Attempt) -> dict[str, str]:
    return {
        "what": _plain(attempt.what),
        "stream": _plain(attempt.stream),
        "remote": attempt.remote,
    }


def _plain(text: str) -> str:
    """Return the text in one short line of ASCII, whatever a caller put into it."""
    return ascii(text[:LONGEST])[1:-1]
