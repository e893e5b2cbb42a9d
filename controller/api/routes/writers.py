"""Routes for a stream's writers: list, explain, ledger, and operator actions."""

from __future__ import annotations

from heapq import nlargest
from operator import attrgetter
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from controller.aggregation import operations
from controller.aggregation.stream import StreamState
from controller.aggregation.views import inspection
from controller.aggregation.views.view import View
from controller.api.routes.deps import (
    ControllerDep,
    DomainQuery,
    LimitQuery,
    OrderDep,
    PositionDep,
    StartQuery,
    StreamName,
)
from controller.api.wire import requests
from controller.api.wire.bodies import BodyOf
from controller.api.wire.encoding import reply
from controller.api.wire.problems import PROBLEM_RESPONSES
from controller.api.wire.schemas import declare
from controller.service.controller import Controller
from noted_time.answers import Explanation, LedgerPage, WriterRow, WritersPage
from noted_time.rules import HOLDING_BACK_NAMED
from noted_time.values import MAX_INT64, WRITERS_NAMED

router = APIRouter(prefix="/streams/{stream}", tags=["writers"], responses=PROBLEM_RESPONSES)
WRITER_PATH = "/writers/{writer}"

WriterName = Annotated[requests.NameParameter, Path(description="name of a writer")]


class WritersAsked(BaseModel, frozen=True):
    """A page of members, and a part of their names."""

    domain: DomainQuery = None
    search: Annotated[str, Field(max_length=249, description="a part of the name")] = ""
    start: StartQuery = 0
    limit: LimitQuery = 100


@router.get("/writers", responses=declare(WritersPage))
async def list_writers(
    controller: ControllerDep, stream: StreamName, query: Annotated[WritersAsked, Query()]
) -> Response:
    """List the members of `domain`, or of all domains, first those that hold back the watermark.

    `states` always counts all members of the stream.
    """
    state = controller.stream(stream)
    page = range(query.start, query.start + query.limit)
    return reply(inspection.writers(state, controller.now, page, query.domain, query.search))


@router.get(WRITER_PATH, responses=declare(WriterRow))
async def get_writer(controller: ControllerDep, stream: StreamName, writer: WriterName) -> Response:
    """Return one member."""
    return _answer_row(controller, controller.stream(stream), writer)


def _answer_row(controller: Controller, state: StreamState, writer: str) -> Response:
    return reply(inspection.build_writer_row(View.of(state, controller.now, None), writer))


@router.delete(WRITER_PATH, responses=declare(WriterRow))
async def remove_writer(  # noqa: PLR0913, PLR0917 - one for each parameter
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    writer: WriterName,
    unless_noted_since: Annotated[int | None, Query(ge=0, le=MAX_INT64)] = None,
    domain: Annotated[requests.NameParameter | None, Query(description="one it dropped")] = None,
) -> Response:
    """Exclude a writer now, at its last position. The watermark no longer waits for it.

    Rows that the writer later writes below the watermark are late. With `unless_noted_since` (Unix
    ms), the call fails if the writer has noted since.

    With `domain`, the writer stays a member, and is no longer missing in this domain, which it
    dropped from its `domains`. The status is 422 if it did not.
    """
    condition = unless_noted_since, domain
    state, _ = await controller.change(stream, operations.remove, order, writer, *condition)
    return _answer_row(controller, state, writer)


@router.post(WRITER_PATH + "/suspension", responses=declare(WriterRow))
async def suspend_timeout(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    writer: WriterName,
    body: Annotated[requests.SuspensionRequest, Depends(BodyOf(requests.SuspensionRequest))],
) -> Response:
    """Wait for a writer for `for_ms`, regardless of its timeout."""
    state, _ = await controller.change(
        stream, operations.suspend_timeout, order, writer, body.for_ms
    )
    return _answer_row(controller, state, writer)


@router.delete(WRITER_PATH + "/suspension", responses=declare(WriterRow))
async def resume_timeout(
    controller: ControllerDep, order: OrderDep, stream: StreamName, writer: WriterName
) -> Response:
    """End the suspension, so that the writer's timeout applies again."""
    state, _ = await controller.change(stream, operations.suspend_timeout, order, writer, None)
    return _answer_row(controller, state, writer)


class ExplanationAsked(BaseModel, frozen=True):
    """A domain, the assumptions of a dry run, and the number of waiting writers to name."""

    domain: DomainQuery = None
    exclude: Annotated[list[requests.NameParameter], Field(max_length=1000)] = []
    writer_timeout_ms: Annotated[int | None, Field(ge=1, le=MAX_INT64)] = None
    limit: LimitQuery = HOLDING_BACK_NAMED


@router.get("/explain", responses=declare(Explanation))
async def explain(
    controller: ControllerDep,
    stream: StreamName,
    query: Annotated[ExplanationAsked, Query()],
    position: PositionDep,
) -> Response:
    """Return which writers hold back the watermark, and where it would be without each of them.

    With `exclude` or `writer_timeout_ms`, `would` is the effect of removing these writers, or of
    changing the timeout. With `position`, `reader` contains the segments that a reader at this
    position waits for. Nothing is changed.
    """
    view = View.of(controller.stream(stream), controller.now, query.domain)
    assumptions = query.model_dump(exclude={"domain"})
    return reply(inspection.explain(view, position=position, **assumptions))


class LedgerAsked(BaseModel, frozen=True):
    """A page of the ledger of a domain."""

    domain: DomainQuery = None
    after: Annotated[int, Field(ge=0, le=MAX_INT64)] = 0
    limit: LimitQuery = 100
    order: Annotated[Literal["oldest", "newest"], Field(description="which come first")] = "oldest"


@router.get("/ledger", responses=declare(LedgerPage))
async def list_ledger(
    controller: ControllerDep, stream: StreamName, query: Annotated[LedgerAsked, Query()]
) -> Response:
    """List the marks that advanced without a writer, by seq, and the late rows."""
    state = controller.stream(stream)
    state.history(query.domain)
    late = state.late_reports[state.settings.domain_or_default(query.domain)]
    newest = nlargest(WRITERS_NAMED, late, key=attrgetter("last_seen_at"))
    is_newest_first = query.order == "newest"
    limit = query.limit
    page, next_page = await controller.views.ledger(
        stream, query.domain, after=query.after, limit=limit, newest_first=is_newest_first
    )
    answer = LedgerPage(
        entries=page, next=next_page, late_reports=newest, late_report_count=len(late)
    )
    return reply(answer)
