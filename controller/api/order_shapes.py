"""The JSON bodies of how far readers are behind, as OpenAPI shows them; pydantic checks none."""

from __future__ import annotations

from pydantic import BaseModel


class SegmentTimeShape(BaseModel):
    """How far a position is in one segment: all events there below `lower` were read.

    Null before all marks. `behind` is by how much that is below the last mark's lower.
    """

    lower: int | None
    behind: int | None


class SegmentTimesAnswer(BaseModel):
    """Where a position stands in each segment; `behind` is the largest of them.

    `order` has the segments that are still to be read, least time first.
    """

    segments: dict[str, SegmentTimeShape]
    order: list[int]
    behind: int | None


class ReaderLagShape(BaseModel):
    """How far a reader is behind; of the readers of a group the greatest rank hands over first."""

    behind: int | None
    rank: float
