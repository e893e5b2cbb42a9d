"""The outcome of a writer's notes: the values of `flush` and `on_excluded`."""

from __future__ import annotations

from dataclasses import dataclass

from noted_time.values import Accepted, format_time

_EXCLUSION_REASONS = {
    "timed_out": (
        "it was silent for its timeout",
        "note more often, call idle() while nothing is written, or give the client a timeout_ms",
    ),
    "removed": ("an operator removed it", "the ledger of the stream says who"),
    "returned_late": (
        "it came back when time was further",
        "join before the first write, or have the stream expect the writer (expected_writers)",
    ),
}
"""For each reason: what happened, and what to do so that it does not happen again."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The watermark advanced without the writer: rows below `lower` are late, unless noted.

    `reason` is ``timed_out``, ``removed`` or ``returned_late``; `since` is in Unix ms. It ends when
    the writer has noted a time above the lower.

    >>> exclusion = Exclusion("timed_out", since=1357041600000, lower=90)
    >>> exclusion.sentence[:81]
    'the watermark has been advancing without it since 2013-01-01T12:00:00Z (timed_out'
    """

    reason: str
    since: int
    lower: int | None

    @classmethod
    def of(cls, result: Accepted) -> Exclusion | None:
        """Return the exclusion in an answer, `None` without one."""
        exclusion = result.exclusion
        return None if exclusion is None else cls(exclusion.reason, exclusion.since, result.lower)

    @property
    def sentence(self) -> str:
        """What it means and what to do, as a sentence that follows the writer's name."""
        happened, remedy = _EXCLUSION_REASONS.get(
            self.reason, ("see explain", "see explain of the stream")
        )
        return (
            f"the watermark has been advancing without it since {format_time(self.since)} "
            f"({self.reason}: {happened}), "
            f"so what it writes below {format_time(self.lower)} is late until it has noted a time "
            f"above that; to avoid it, {remedy}"
        )


@dataclass(frozen=True, slots=True)
class Flushed:
    """The outcome of a flush: all that was noted is durable.

    `lower` is that of the last mark as of the last answer, in the domain last noted: rows below it
    are late. `excluded` is set if the watermark advances without the writer. `late_rows` counts the
    late rows that the caller reported since the client was created.
    """

    lower: int | None
    excluded: Exclusion | None = None
    late_rows: int = 0
