"""Routes for overviews: all streams, the history of a watermark, and segments."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from controller.aggregation.views.overview import build_stream_row
from controller.api.routes.deps import (
    CallDep,
    ControllerDep,
    DomainQuery,
    LimitQuery,
    StartQuery,
    StreamName,
)
from controller.api.wire import requests
from controller.api.wire.encoding import reply
from controller.api.wire.problems import PROBLEM_RESPONSES
from controller.api.wire.schemas import declare
from noted_time.answers import OverviewPage, Period, SegmentsPage, StreamRow

router = APIRouter(tags=["views"], responses=PROBLEM_RESPONSES)
MomentQuery = Annotated[requests.Int64Parameter | None, Query(description="wall time in Unix ms")]


class OverviewAsked(BaseModel, frozen=True):
    """A page of streams, and a part of their names."""

    search: Annotated[str, Field(max_length=249, description="a part of the name")] = ""
    sort: Literal["trouble", "name"] = "trouble"
    start: StartQuery = 0
    limit: LimitQuery = 50


@router.get("/overview", responses=declare(OverviewPage))
async def get_overview(
    controller: ControllerDep, call: CallDep, query: Annotated[OverviewAsked, Query()]
) -> Response:
    """List the streams that the caller may read, by trouble or by name.

    Streams in trouble come first, in this order:

    - streams that are silent because a writer is missing,
    - streams whose watermark a writer has held back for long,
    - streams with excluded writers.

    By name, the list also has streams that other controllers own.
    """
    controller.check_serving()
    may_read = call.holder.grant.may_read

    def is_shown(name: str) -> bool:
        return query.search in name and may_read(name)

    start = query.start
    limit = query.limit
    return reply(await controller.views.overview(is_shown, query.sort, start=start, limit=limit))


@router.get("/streams/{stream}/overview", responses=declare(StreamRow))
async def get_stream_overview(controller: ControllerDep, stream: StreamName) -> Response:
    """Return the stream's row of the overview."""
    return reply(build_stream_row(controller.stream(stream), controller.now))


class HistoryAsked(BaseModel, frozen=True):
    """A period of a domain, and the number of points to draw it with."""

    domain: DomainQuery = None
    from_at: MomentQuery = None
    to_at: MomentQuery = None
    points: Annotated[int, Field(ge=1, le=2000)] = 600


@router.get("/streams/{stream}/history", responses=declare(Period))
async def get_history(
    controller: ControllerDep, stream: StreamName, query: Annotated[HistoryAsked, Query()]
) -> Response:
    """Return how the watermark advanced over wall time, in at most `points` points.

    The default period is from the first mark that is kept until now.
    """
    period = await controller.views.history(
        stream, query.domain, query.from_at, query.to_at, points=query.points
    )
    return reply(period)


@router.get("/streams/{stream}/segments", responses=declare(SegmentsPage))
async def list_segments(
    controller: ControllerDep,
    stream: StreamName,
    domain: DomainQuery = None,
    start: StartQuery = 0,
    limit: LimitQuery = 100,
) -> Response:
    """List the segments by number, with their state, extent and writers (of 10,000 members)."""
    rows = await controller.views.segments(stream, domain, start=start, limit=limit + 1)
    next_page = start + limit if len(rows) > limit else None
    now = controller.now_ms
    return reply(SegmentsPage(now=now, segments=rows[:limit], next=next_page))
