"""Routes for streams: settings, notes, scale events, seal, truncation and changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response

from controller.aggregation import operations
from controller.api.notes import route
from controller.api.notes.body import REQUEST_BODY
from controller.api.routes.deps import CallDep, ControllerDep, LimitQuery, OrderDep, StreamName
from controller.api.wire import requests
from controller.api.wire.answers import build_stream
from controller.api.wire.encoding import reply
from controller.api.wire.problems import NOTES_REFUSED, PROBLEM_RESPONSES
from controller.api.wire.schemas import declare
from noted_time import Rejected, ScaleEvent, SealRequest
from noted_time.answers import (
    ChangeAnswer,
    ChangesPage,
    DroppedAnswer,
    NotesAnswer,
    SealedAnswer,
    StreamAnswer,
    StreamsPage,
    TruncatedAnswer,
)
from noted_time.client import position_from_wire
from noted_time.values import MAX_INT64

router = APIRouter(prefix="/streams", tags=["streams"], responses=PROBLEM_RESPONSES)
NEEDS_SAME_OFFSETS = (
    "set `same_offsets: true` if its records have the same offsets, as in a linked or restored "
    "log; a topic that was created again needs a new stream"
)

DryRunQuery = Annotated[
    bool, Query(description="return the effect of the call without changing anything")
]


@router.get("", responses=declare(StreamsPage), operation_id="listStreams")
async def list_streams(
    controller: ControllerDep, call: CallDep, after: str | None = None, limit: LimitQuery = 100
) -> Response:
    """List the streams that the caller may read, sorted by name, in pages."""
    may_read = call.holder.grant.may_read
    names = [name for name in await controller.names() if after is None or name > after]
    names = [name for name in names if may_read(name)]
    page = names[:limit]
    streams = [build_stream(each) for each in await controller.summaries(page)]
    next_page = page[-1] if len(names) > limit else None
    return reply(StreamsPage(streams=streams, next=next_page))


@router.put(
    "/{stream}",
    responses=declare(StreamAnswer, DroppedAnswer)
    | {201: declare(StreamAnswer)[200] | {"description": "Created"}},
    operation_id="createOrUpdateStream",
)
async def put_stream(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    changes: Annotated[requests.StreamChanges | None, Body()] = None,
    *,
    dry_run: DryRunQuery = False,
) -> Response:
    """Create the stream, or change the settings that are given.

    A dry run requires an existing stream. It returns how many marks would be dropped for good.
    """
    changes = changes or requests.StreamChanges()
    if changes.log is not None and not changes.same_offsets:
        raise Rejected(f"`log` {changes.log}: {NEEDS_SAME_OFFSETS}")
    if changes.log is None and changes.same_offsets:
        raise Rejected("`same_offsets` has no effect without `log`: leave it out")
    settings = changes.settings()
    if dry_run:
        state = controller.stream(stream)
        dropped = operations.preview_settings(state, settings, state.service_ms(controller.now))
        record = replace(state.record, logs=operations.add_log(state.record, changes.log))
        summary = replace(state.summary(), record=record)
        return reply(build_stream(summary, DroppedAnswer, dropped=dropped))
    state, created = await controller.put_stream(stream, settings, order, log=changes.log)
    return reply(build_stream(state.summary()), 201 if created else 200)


@router.get("/{stream}", responses=declare(StreamAnswer), operation_id="getStream")
async def get_stream(controller: ControllerDep, stream: StreamName) -> Response:
    """Return the stream's settings, creation id, last mark per domain and scale events."""
    return reply(build_stream(controller.stream(stream).summary()))


@router.delete("/{stream}", status_code=204, operation_id="deleteStream")
async def delete_stream(controller: ControllerDep, stream: StreamName) -> Response:
    """Delete the stream with its marks, notes and readers."""
    await controller.drop_stream(stream)
    return Response(status_code=204)


@router.post(
    "/{stream}/notes",
    operation_id="noteTime",
    responses=declare(NotesAnswer) | NOTES_REFUSED,
    openapi_extra={"requestBody": REQUEST_BODY},
)
async def note_time(
    controller: ControllerDep, call: CallDep, stream: StreamName, request: Request
) -> Response:
    """Note time with up to 1000 notes. With status 200, every accepted note is durable.

    If every note is refused, the status is 422, and the problem also has the fields of this answer.
    """
    body = await request.body()
    answer = await route.answer_notes(controller, call._replace(stream=stream), body)
    return answer.to_response()


@router.post("/{stream}/scale", responses=declare(StreamAnswer), operation_id="scaleStream")
async def scale(
    controller: ControllerDep, order: OrderDep, stream: StreamName, event: requests.ScaleRequest
) -> Response:
    """Seal segments at their final offsets and create their successors. Repeating it is a no-op."""
    created = {int(segment): tuple(before) for segment, before in event.created.items()}
    scale_event = ScaleEvent(position_from_wire(event.sealed), created)
    state, _ = await controller.change(stream, operations.scale, order, scale_event)
    return reply(build_stream(state.summary()))


@router.post("/{stream}/seal", responses=declare(SealedAnswer), operation_id="sealStream")
async def seal(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: Annotated[requests.SealBody | None, Body()] = None,
) -> Response:
    """End the stream for good: all members are finished, and each domain gets its last mark.

    Sending the same body again changes nothing.
    """
    body = body or requests.SealBody()
    request = SealRequest(position_from_wire(body.cut), body.final_times)
    state, sealed = await controller.seal(stream, order, request)
    return reply(build_stream(state.summary(), SealedAnswer, never_noted=sealed.never_noted))


@router.post(
    "/{stream}/truncate", responses=declare(TruncatedAnswer), operation_id="truncateStream"
)
async def truncate(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: requests.TruncateRequest,
    *,
    dry_run: DryRunQuery = False,
) -> Response:
    """Drop the marks that readers at or after the cut do not need. The last mark is kept."""
    cut = position_from_wire(body.cut)
    if dry_run:
        state = controller.stream(stream)
        truncation = operations.preview_truncation(state, cut)
    else:
        state, truncation = await controller.change(stream, operations.truncate, order, cut)
    return reply(build_stream(state.summary(), TruncatedAnswer, **truncation._asdict()))


@router.get("/{stream}/changes", responses=declare(ChangesPage), operation_id="listChanges")
async def list_changes(
    controller: ControllerDep,
    stream: StreamName,
    before: Annotated[int | None, Query(ge=1, le=MAX_INT64)] = None,
    limit: LimitQuery = 100,
) -> Response:
    """List the changes by operators, with caller and reason, newest first."""
    numbered_changes = await controller.views.changes(stream, before=before, limit=limit + 1)
    changes = [
        ChangeAnswer(n, c.at, c.action, c.writer, c.was, c.became, c.by, c.comment)
        for n, c in numbered_changes[:limit]
    ]
    next_page = numbered_changes[limit - 1][0] if len(numbered_changes) > limit else None
    return reply(ChangesPage(changes=changes, next=next_page))
