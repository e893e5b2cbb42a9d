"""The overview of streams, and the history of a watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from noted_time.open_enum import OpenEnum, list_names
from noted_time.reading import Point
from noted_time.values import DecisionName, Overtaking

Silence = OpenEnum["missing", "silent", "ended"]
"""The consequence of a stream's silence.

- `missing`: the watermark advanced without a writer, or an expected writer never noted
- `silent`: nothing is late
- `ended`: nothing is late, and the stream has been silent for a day or longer
"""

Active = OpenEnum["held_back", "waiting", "unmarked", "advancing", "quiet", "sealed"]

Condition = OpenEnum[Silence, Active]
"""The condition of a domain, or of the stream with the worst of its domains.

- `held_back`: the watermark waits for a writer, and stands for longer than usual
- `waiting`: the last mark is recent, but for 10 s another writer has noted a later time
- `advancing`: the last mark is recent, even if the watermark waits for the next notes
- a `Silence`: no writer is left that could advance it
"""

CONDITIONS: Sequence[Condition] = list_names(Condition)
"""All conditions, the worst of the domains of one stream first."""


class DomainRow(Struct, frozen=True, kw_only=True):
    """A domain: its last mark, the decision, its condition, and the first that holds it back.

    - `recent_lags_ms`: the watermark's lag behind the wall clock at 30 moments of the last hour,
      the oldest first and the last one now. Null before the first mark, and if the lower is not in
      Unix ms.
    - `overtaking`: the later time that another writer has noted, for more than 10 s.

    Values that only the stream's owner knows are null if the owner was not asked.
    """

    domain: str
    lower: int | None
    upper: int | None
    written_at: int | None
    decision: DecisionName | None = None
    condition: Condition | None = None
    holding_back_count: int | None = None
    held_back_by: str | None = None
    held_back_ms: int | None = None
    times_out_in_ms: int | None = None
    overtaking: Overtaking | None = None
    recent_lags_ms: tuple[int | None, ...]


class Members(Struct, frozen=True):
    """The number of members by state."""

    live: int
    idle: int
    finished: int
    excluded: int


class StreamRow(Struct, frozen=True):
    """A stream. If the owner has not `answered`, the row comes from the database.

    `silence` is the consequence of the stream's silence, null if the stream is not silent.
    """

    name: str
    id: str
    answered: bool
    writers: Members | None
    domains: tuple[DomainRow, ...]
    silence: Silence | None = None


class Period(Struct, frozen=True):
    """The movement of the watermark, with one point for each slot that has a mark.

    - `first_at`: when the first kept mark was written (Unix ms).
    - `lower_before`: the lower of the last mark written before `from_at`.
    """

    now: int
    from_at: int
    to_at: int
    first_at: int | None
    lower_before: int | None
    points: Sequence[Point]


class OverviewPage(Struct, frozen=True):
    """A page of the streams that match. `total` is their number.

    - `unanswered`: the number of streams of other controllers.
    - `conditions`: the number of other streams by condition, which is the worst of their domains.
    - `next`: the `start` of the next page.
    """

    now: int
    total: int
    unanswered: int
    conditions: Mapping[str, int]
    streams: Sequence[StreamRow]
    next: int | None
