"""What the log says of calls that were refused or changed what others rely on; never a secret.

Administrative calls are always told. How many of the refused ones are is bounded for the process,
as its log is one, whatever the number of its gates.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Literal

import structlog

from controller.api.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = structlog.get_logger()

LONGEST = 300

TELL_EVERY_S = 5.0
"""How soon after its minute it is told what was passed over."""

Refused = Literal["unauthenticated", "forbidden", "foreign_origin"]

_refusals = Refusals()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: method and path without its query, the stream it names, and from where it came."""

    what: str
    stream: str
    remote: str


def refused(attempt: Attempt, outcome: Refused, who: str = "", *, now: float | None = None) -> None:
    """Log a call that was not let in, unless many like it were logged within a minute.

    `who` is the id of a token that counts, if it showed one; `now` is in seconds, by default those
    of a clock that never goes back.
    """
    now = monotonic() if now is None else now
    tell_passed_over(now)
    if _refusals.is_told(attempt.remote, outcome, now):
        log.warning("audit", outcome=outcome, who=who, **_told(attempt))


def answered(attempt: Attempt, status: int, who: str) -> None:
    """Log an administrative call, with the status of its answer."""
    log.info("audit", outcome=status, who=who, **_told(attempt))


def tell_passed_over(now: float) -> None:
    """Log how many refused calls were not, in the minutes that are over."""
    for passed in _refusals.ended(now):
        log.warning("refusals_passed_over", **asdict(passed))


@asynccontextmanager
async def watching() -> AsyncIterator[None]:
    """Tell what was passed over in time meanwhile, also where no further call comes."""
    watch = asyncio.create_task(_watch(), name="audit")
    try:
        yield
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        tell_passed_over(inf)


async def _watch() -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        tell_passed_over(monotonic())


def _told(attempt: Attempt) -> dict[str, str]:
    return {
        "what": _plain(attempt.what),
        "stream": _plain(attempt.stream),
        "remote": attempt.remote,
    }


def _plain(text: str) -> str:
    """Return the text in one short line of ASCII, whatever a stranger put into it."""
    return ascii(text[:LONGEST])[1:-1]
