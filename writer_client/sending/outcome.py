"""The outcome of a writer's notes, for `flush` and `on_excluded`."""

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
        "it came back after the watermark had passed its time",
        "join before the first write, or have the stream expect the writer (expected_writers)",
    ),
}  # what happened, and how to avoid it


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The watermark advances without the writer, so rows below `lower` are late.

    `reason` is ``timed_out``, ``removed`` or ``returned_late``. `since` is in Unix ms. It ends when
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
        """Return the exclusion in an answer, if any."""
        exclusion = result.exclusion
        return None if exclusion is None else cls(exclusion.reason, exclusion.since, result.lower)

    @property
    def sentence(self) -> str:
        """An explanation with the remedy, to follow the writer's name."""
        happened, remedy = _EXCLUSION_REASONS.get(
            self.reason, ("see explain", "see explain of the stream")
        )
        return (
            f"the watermark has been advancing without it since {format_time(self.since)} "
            f"({self.reason}: {happened}), "
            f"so rows that it writes below {format_time(self.lower)} are late until it has noted "
            f"a time above that; to avoid it, {remedy}"
        )


@dataclass(frozen=True, slots=True)
class Flushed:
    """The outcome of a flush."""

    lower: int | None
    """The lower of the domain last noted, as of the last answer; rows below it are late."""
    excluded: Exclusion | None = None
    """Set if the watermark advances without the writer."""
    late_rows: int = 0
    """The number of late rows reported since the client was created."""
