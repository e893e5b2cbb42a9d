"""Routes for overviews: all streams at a glance, how a watermark moved, segments."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from controller.api.fleet.gathering import Gathering, OverviewQuery
from controller.api.gate.access import OVERVIEW
from controller.api.gate.admitted import FORWARDED
from controller.api.routes.deps import (
    CallDep,
    ControllerDep,
    DomainQuery,
    LimitQuery,
    StartQuery,
    StreamName,
    part_of_the_app,
)
from controller.api.wire import shapes
from controller.api.wire.answer_shapes import OverviewPage, SegmentsPage
from controller.api.wire.problems import PROBLEMS
from controller.api.wire.replies import reply, shape
from controller.service.long_reads import Period

router = APIRouter(tags=["views"], responses=PROBLEMS)
MomentQuery = Annotated[shapes.Int64 | None, Query(description="wall time in Unix ms")]


@router.get(
    OVERVIEW.removeprefix("/v1"), response_model=shape(OverviewPage), operation_id="getOverview"
)
async def get_overview(  # noqa: PLR0913 - one parameter for each of the query's
    request: Request,
    gathering: Annotated[Gathering, part_of_the_app("gathering")],
    call: CallDep,
    *,
    search: Annotated[str, Query(max_length=249, description="a part of the name")] = "",
    sort: Literal["trouble", "name"] = "trouble",
    start: StartQuery = 0,
    limit: LimitQuery = 50,
) -> Response:
    """Show the streams that may be read, of all controllers: those in trouble first, or by name.

    Trouble is, in this order: an owner that does not answer, a writer that holds the watermark for
    long, and writers that are excluded.
    """
    question, may_read = OverviewQuery(search, sort, start, limit), call.holder.grant.may_read
    if FORWARDED.decode() in request.headers:
        return reply(await gathering.own(question, may_read))
    authorization = request.headers.get("authorization")
    return reply(await gathering.overview(question, may_read, authorization))


@router.get("/streams/{stream}/history", response_model=shape(Period), operation_id="getHistory")
async def get_history(  # noqa: PLR0913 - one parameter for each of the query's
    controller: ControllerDep,
    stream: StreamName,
    *,
    domain: DomainQuery = None,
    from_: Annotated[MomentQuery, Query(alias="from")] = None,
    to: MomentQuery = None,
    points: Annotated[int, Query(ge=1, le=2000)] = 600,
) -> Response:
    """Show how the watermark moved over wall time, in at most `points` points.

    By default from the first mark that is kept until now.
    """
    return reply(await controller.views.history(stream, domain, from_, to, points=points))


@router.get(
    "/streams/{stream}/segments", response_model=shape(SegmentsPage), operation_id="listSegments"
)
async def list_segments(
    controller: ControllerDep,
    stream: StreamName,
    domain: DomainQuery = None,
    start: StartQuery = 0,
    limit: LimitQuery = 100,
) -> Response:
    """List the segments by number: state, extent, and who wrote there, of 10,000 members."""
    rows = await controller.views.segments(stream, domain, start=start, limit=limit + 1)
    further = start + limit if len(rows) > limit else None
    return reply(SegmentsPage(controller.now_ms, rows[:limit], further))
