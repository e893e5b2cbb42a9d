"""Routes for readers: marks, time windows, cuts, reader groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from controller.api import shapes
from controller.api.deps import ControllerDep, StreamName
from controller.api.problems import PROBLEMS
from controller.api.replies import group_to_wire, marks_to_wire, reply, window_reply
from noted_time.cut import MAX_INT64
from noted_time.wire import mark_to_wire, position_from_wire

router = APIRouter(prefix="/streams/{stream}", tags=["readers"], responses=PROBLEMS)
GROUP = "/reader-groups/{group}"
READER = GROUP + "/readers/{reader}"
PathName = Annotated[shapes.Name, Path()]


@router.get("/marks", response_model=shapes.MarksAnswer)
async def list_marks(  # noqa: PLR0913 - one parameter for each of the query's
    controller: ControllerDep,
    stream: StreamName,
    *,
    key: shapes.Name | None = None,
    after: Annotated[int, Query(ge=0, le=MAX_INT64)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    wait_ms: Annotated[int, Query(ge=0, le=30_000)] = 0,
) -> Response:
    """Return the marks after a seq; waits up to `wait_ms` while there is none."""
    found = await controller.marks(stream, key, after=after, limit=limit, wait_ms=wait_ms)
    return reply(marks_to_wire(found))


@router.post("/time-window", response_model=shapes.WindowShape)
async def time_window(
    controller: ControllerDep, stream: StreamName, body: shapes.WindowRequest
) -> Response:
    """Turn a reader's position into a time window."""
    found = controller.stream(stream)
    return window_reply(found.window(position_from_wire(body.position), body.key))


@router.get("/cut", response_model=shapes.MarkShape)
async def cut(
    controller: ControllerDep,
    stream: StreamName,
    complete_to: Annotated[shapes.Int64, Query()],
    key: shapes.Name | None = None,
) -> Response:
    """Return the first mark with lower >= `complete_to`: read up to its cut to have it all."""
    found = controller.stream(stream)
    return reply(mark_to_wire(found.history(key).complete_to(complete_to)))


@router.put(READER, response_model=shapes.GroupShape)
async def report(
    controller: ControllerDep,
    stream: StreamName,
    group: PathName,
    reader: PathName,
    body: shapes.ReaderReport,
) -> Response:
    """Report how far a reader of the group has read."""
    position = position_from_wire(body.position)
    state = await controller.report(stream, group, reader, position)
    return reply(group_to_wire(state, state.groups[group]))


@router.post(READER + "/offline", response_model=shapes.GroupShape)
async def offline(
    controller: ControllerDep,
    stream: StreamName,
    group: PathName,
    reader: PathName,
    body: shapes.ReaderReport,
) -> Response:
    """Put the reader's segments back to this position; it no longer counts."""
    position = position_from_wire(body.position)
    state = await controller.offline(stream, group, reader, position)
    return reply(group_to_wire(state, state.groups[group]))


@router.get(GROUP, response_model=shapes.GroupShape)
async def get_group(controller: ControllerDep, stream: StreamName, group: PathName) -> Response:
    """Return the group's combined position, its readers and its time window per key."""
    return reply(group_to_wire(*controller.group(stream, group)))
