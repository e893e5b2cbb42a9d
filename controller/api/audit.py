"""The audit log: calls that were refused, and calls that changed what others rely on; no secrets.

Every administrative call is logged. Refused calls come in any number, from anybody, and must not
fill the disk: of each remote address and outcome the first few of a minute are logged and the
others counted. Beyond some pairs of them, all further remotes count as one.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Literal

import structlog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = structlog.get_logger()

LONGEST = 300

LOGGED = 10
"""How many refusals of a remote and an outcome are logged in a minute."""

PERIOD_S = 60.0

APART = 100
"""How many pairs of remote and outcome are counted apart within a minute."""

OTHERS = "others"
"""The remote that stands for all those that are not counted apart."""

REPORT_EVERY_S = 5.0
"""How soon after its minute the log says how many refusals were only counted."""

Outcome = Literal["unauthenticated", "forbidden", "foreign_origin"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: method and path without its query, the stream it names, and from where it came."""

    what: str
    stream: str
    remote: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """So many refusals of a minute that were not logged."""

    remote: str
    outcome: str
    count: int


@dataclass(slots=True)
class _Minute:
    begun: float
    count: int = 0


class Refusals:
    """The refusals of the last minute, by remote and outcome; `now` is in seconds and never falls.

    >>> refusals = Refusals(logged=2)
    >>> [refusals.is_logged("10.0.0.7", "forbidden", now) for now in (0, 1, 2, 3)]
    [True, True, False, False]
    >>> refusals.ended(59), refusals.ended(60)
    ([], [PassedOver(remote='10.0.0.7', outcome='forbidden', count=2)])
    """

    def __init__(self, logged: int = LOGGED, apart: int = APART) -> None:
        """Begin without any."""
        self._logged = logged
        self._apart = apart
        self._minutes: dict[tuple[str, str], _Minute] = {}  # the longest begun first

    def is_logged(self, remote: str, outcome: str, now: float) -> bool:
        """Count a refusal; returns whether to log it. Call `ended` with this `now` before."""
        minute = self._minutes.get((remote, outcome))
        if minute is None:
            whose = remote if len(self._minutes) < self._apart else OTHERS
            minute = self._minutes.setdefault((whose, outcome), _Minute(now))
        minute.count += 1
        return minute.count <= self._logged

    def ended(self, now: float) -> list[PassedOver]:
        """Drop the minutes that are over; returns what was passed over in them."""
        over = []
        for pair, minute in self._minutes.items():
            if now - minute.begun < PERIOD_S:
                break
            over.append(pair)
        counts = [(pair, self._minutes.pop(pair).count - self._logged) for pair in over]
        return [PassedOver(*pair, count) for pair, count in counts if count > 0]


_refusals = Refusals()
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
    """Log an administrative call, with the status of its answer."""
    log.info("audit", outcome=status, who=who, **_fields(attempt))


def report_passed_over(now: float) -> None:
    """Log how many refused calls were only counted, in the minutes that are over."""
    for passed in _refusals.ended(now):
        log.warning("refusals_passed_over", **asdict(passed))


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
