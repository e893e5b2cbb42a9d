"""The bodies of answers with complete windows, for the API's description."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from controller.api.answer_shapes import MarkShape
from controller.api.shapes import Position


class MissingShape(BaseModel):
    """A writer that the watermark advanced without, since a moment in Unix ms; its last time."""

    writer: str
    reason: Literal["timed_out", "removed", "returned_late", "sealed"]
    since: int | None
    time: int | None


class Missing(BaseModel):
    """The writers that are missing, at most 100 of `missing_count`.

    If `missing_is_known` is false, the ledger does not reach back so far, and there may be others.
    """

    missing: list[MissingShape]
    missing_count: int
    missing_is_known: bool


class CutShape(MarkShape, Missing):
    """The first mark that is complete to a time, and which writers are missing at it.

    `has_position` is false if its cut is empty: its writers noted times alone, and no position
    stands behind it.
    """

    has_position: bool


class CompleteWindowShape(Missing):
    """A complete window from start to end, exclusive: all its rows lie below the cut `to`.

    If it is `exact`, none of them lies below `from`. Rows of the `missing` writers, without which
    the watermark passed the window, may be missing; `excluded` names those that it first passed
    without there.
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
