"""Routes of a stream's writers: who holds the watermark, what if, and the operator's hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from controller.aggregation.inspection import DryRun
from controller.api import answer_shapes, shapes
from controller.api.deps import CallDep, ControllerDep, StreamName
from controller.api.problems import PROBLEMS
from controller.api.replies import entry_to_wire, explanation_to_wire, reply, writer_to_wire
from noted_time.cut import MAX_INT64

router = APIRouter(prefix="/streams/{stream}", tags=["writers"], responses=PROBLEMS)
WRITER = "/writers/{writer}"

Limit = Annotated[int, Query(ge=1, le=1000)]
Domain = Annotated[shapes.Name | None, Query(description="by default the only one, or `default`")]
WriterName = Annotated[shapes.Name, Path(description="name of a writer")]


@router.get("/writers", response_model=answer_shapes.WritersPage, operation_id="listWriters")
async def list_writers(
    controller: ControllerDep,
    stream: StreamName,
    start: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Limit = 100,
) -> Response:
    """List the members, the longest holder of time first."""
    rows = controller.writers(stream, start=start, limit=limit + 1)
    body = {
        "writers": [writer_to_wire(row) for row in rows[:limit]],
        "next": start + limit if len(rows) > limit else None,
    }
    return reply(body)


@router.get(WRITER, response_model=answer_shapes.WriterShape, operation_id="getWriter")
async def get_writer(controller: ControllerDep, stream: StreamName, writer: WriterName) -> Response:
    """Return one member."""
    return reply(writer_to_wire(controller.writer(stream, writer)))


@router.delete(WRITER, response_model=answer_shapes.WriterShape, operation_id="removeWriter")
async def remove_writer(
    controller: ControllerDep, call: CallDep, stream: StreamName, writer: WriterName
) -> Response:
    """Exclude a writer now, at its last position; the watermark no longer waits for it.

    Its times count no more. What it writes below the watermark afterwards is late.
    """
    by = call.holder.token_id or call.remote
    return reply(writer_to_wire(await controller.remove_writer(stream, writer, by)))


@router.post(WRITER + "/hold", response_model=answer_shapes.WriterShape, operation_id="holdWriter")
async def hold_writer(
    controller: ControllerDep, stream: StreamName, writer: WriterName, body: shapes.HoldRequest
) -> Response:
    """Wait for a writer for so long, whatever its timeout."""
    return reply(writer_to_wire(await controller.hold_writer(stream, writer, body.for_ms)))


@router.delete(
    WRITER + "/hold", response_model=answer_shapes.WriterShape, operation_id="releaseWriter"
)
async def release_writer(
    controller: ControllerDep, stream: StreamName, writer: WriterName
) -> Response:
    """Let the writer's timeout count again."""
    return reply(writer_to_wire(await controller.hold_writer(stream, writer, None)))


@router.get("/explain", response_model=answer_shapes.ExplainShape, operation_id="explain")
async def explain(
    controller: ControllerDep,
    stream: StreamName,
    domain: Domain = None,
    exclude: Annotated[list[shapes.Name], Query(max_length=1000)] = [],  # noqa: B006 - FastAPI copies it
    writer_timeout_ms: Annotated[int | None, Query(ge=1, le=MAX_INT64)] = None,
) -> Response:
    """Say which writers hold the watermark back, and where it would be without each of them.

    With `exclude` or `writer_timeout_ms`, `would` says what would happen if those writers were
    removed, or the timeout changed; nothing changes.
    """
    dry_run = DryRun(exclude, writer_timeout_ms)
    return reply(explanation_to_wire(controller.explain(stream, domain, dry_run)))


@router.get("/ledger", response_model=answer_shapes.LedgerPage, operation_id="listLedger")
async def list_ledger(
    controller: ControllerDep,
    stream: StreamName,
    domain: Domain = None,
    after: Annotated[int, Query(ge=0, le=MAX_INT64)] = 0,
    limit: Limit = 100,
) -> Response:
    """List the marks that went on without a writer, or learned of late rows, by their seq."""
    entries = await controller.ledger(stream, domain, after=after, limit=limit + 1)
    body = {
        "entries": [entry_to_wire(entry) for entry in entries[:limit]],
        "next": entries[limit - 1].seq if len(entries) > limit else None,
    }
    return reply(body)
