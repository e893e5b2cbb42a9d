"""The JSON of a reader group's backlog: the policy as it is given and shown, and what says so."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from controller.api.shapes import Request
from noted_time.values import MAX_INT64

Threshold = Annotated[int, Field(ge=1, le=MAX_INT64)]


class BacklogPolicyBody(Request):
    """When a reader group has a backlog; thresholds in ms, both exclusive, null for never."""

    watermark_lag_ms: Annotated[
        Threshold | None,
        Field(description="so far behind the wall clock the group's lower is"),
    ] = None
    behind_ms: Annotated[
        Threshold | None,
        Field(description="so far behind the last lower of the stream the group's lower is"),
    ] = None
    rule: Annotated[
        Literal["two_way", "sticky"],
        Field(description="sticky: once caught up, no lag makes for a backlog any more"),
    ] = "two_way"


class GroupChanges(Request):
    """When the group has a backlog; null: only when its readers say so."""

    backlog: BacklogPolicyBody | None


class BacklogPolicyShape(BaseModel):
    """When a reader group has a backlog."""

    watermark_lag_ms: int | None
    behind_ms: int | None
    rule: Literal["two_way", "sticky"]


class CauseShape(BaseModel):
    """What says that a group has a backlog: the lag of a domain, or a reader that was told so."""

    reason: Literal["told", "watermark_lag", "behind"]
    domain: str | None
    reader: str | None
