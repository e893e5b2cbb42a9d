"""Decisions of the aggregator for one domain."""

from __future__ import annotations

from msgspec import Struct

from noted_time.open_enum import OpenEnum
from noted_time.values.cut import StreamCut
from noted_time.values.times import Int64

DecisionName = OpenEnum["advance", "wait", "quiet", "sealed"]


class Waiting(Struct, frozen=True):
    """A member that the watermark waits for. Durations are on the service clock.

    - `time`: the last noted time, or `None` before the first note in the domain.
    - `times_out_in_ms`: when the member is excluded if it stays silent.
    - `contact`: whom to ask about it, or `None` if it stated none.
    """

    writer: str
    time: Int64 | None
    held_back_ms: int
    times_out_in_ms: int
    contact: str | None = None


class Overtaking(Struct, frozen=True):
    """A time noted beyond the present lower, which has stood since then (Unix ms).

    `time` is the highest such time, and `writer` noted it, or null if that is not known.
    """

    began_at: int
    writer: str | None
    time: int


class Advance(Struct, frozen=True):
    """The watermark may advance to `lower`. If `flush`, it waits for no live writer."""

    lower: int
    flush: bool = False


class WaitForWriters(Struct, frozen=True):
    """The watermark waits for members that have not noted a time above the last lower."""

    waiting_for: tuple[Waiting, ...]
    """At most 1000 members, the longest first."""
    holding_back_count: int


class Quiet(Struct, frozen=True):
    """No writer is live, and all noted times are in the last mark."""


class Sealed(Struct, frozen=True):
    """The stream is sealed, and its last mark has the final cut."""


Decision = Advance | WaitForWriters | Quiet | Sealed


class Forecast(Struct, frozen=True):
    """The next advance of the watermark if no writer notes.

    - `at`: when the watermark advances (Unix ms, if a controller serves until then).
    - `writers`: at most 20 of the writers excluded by then.
    - `exclusions`: the number of these writers.
    """

    at: int
    lower: int
    writers: tuple[str, ...]
    exclusions: int


class DryRun(Struct, frozen=True):
    """The result of a dry run.

    If `decision` is `advance`, the other fields describe the next mark, otherwise the last mark.
    They are null and empty before the first mark.
    """

    decision: DecisionName
    lower: int | None
    cut: StreamCut | None
    excluded: tuple[str, ...]
