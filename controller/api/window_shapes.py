"""The bodies of answers with complete windows, for the API's description."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from controller.api.shapes import Position


class CompleteWindowShape(BaseModel):
    """A complete window from start to end, exclusive: all its rows lie below the cut `to`.

    Where it is `exact`, none of them lies below `from`. Rows of the `excluded` may be missing.
    """

    start: int
    end: int
    from_: Annotated[Position, Field(alias="from")]
    to: Position
    seq: int
    written_at: int
    excluded: list[str]
    exact: bool


class CompleteWindowsPage(BaseModel):
    """Complete windows in order; `next` is the `after` of the next question.

    `has_more`: the answer ended before the last one that is complete.
    """

    stream_id: str
    windows: list[CompleteWindowShape]
    next: int | None
    has_more: bool
