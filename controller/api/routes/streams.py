"""Routes for streams: settings, notes, scale events, seal, truncation and changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from msgspec.structs import replace

from controller.aggregation import operations
from controller.api.notes.body import NotesBody
from controller.api.routes.deps import CallDep, ControllerDep, LimitQuery, OrderDep, StreamName
from controller.api.wire import requests
from controller.api.wire.answers import build_stream
from controller.api.wire.bodies import BodyOf
from controller.api.wire.encoding import reply
from controller.api.wire.problems import NOTES_REFUSED, PROBLEM_RESPONSES
from controller.api.wire.schemas import declare
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
from noted_time.rules import SealRequest
from noted_time.values import MAX_INT64, Rejected, ScaleEvent

router = APIRouter(prefix="/streams", tags=["streams"], responses=PROBLEM_RESPONSES)
NEEDS_SAME_OFFSETS = (
    "set `same_offsets: true` if its records have the same offsets, as in a linked or restored "
    "log; a topic that was created again needs a new stream"
)

DryRunQuery = Annotated[
    bool, Query(description="return the effect of the call without changing anything")
]


@router.get("", responses=declare(StreamsPage))
async def list_streams(
    controller: ControllerDep, call: CallDep, after: str | None = None, limit: LimitQuery = 100
) -> Response:
    """List the streams that the caller may read, sorted by name, in pages."""
    may_read = call.holder.grant.may_read
    names = [name for name in await controller.names() if after is None or name > after]
    names = [name for name in names if may_read(name)]
    page = names[:limit]
    streams = [build_stream(summary) for summary in await controller.summaries(page)]
    next_page = page[-1] if len(names) > limit else None
    return reply(StreamsPage(streams=streams, next=next_page))


@router.put(
    "/{stream}",
    responses=declare(StreamAnswer, DroppedAnswer)
    | {201: declare(StreamAnswer)[200] | {"description": "Created"}},
)
async def create_or_update_stream(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    changes: Annotated[
        requests.StreamChanges, Depends(BodyOf(requests.StreamChanges, is_optional=True))
    ],
    *,
    dry_run: DryRunQuery = False,
) -> Response:
    """Create the stream, or change the settings that are given.

    A dry run requires an existing stream. It returns how many marks would be dropped for good.
    """
    log = changes.log or None
    if log is not None and not changes.same_offsets:
        raise Rejected(f"`log` {log}: {NEEDS_SAME_OFFSETS}")
    if log is None and changes.same_offsets:
        raise Rejected("`same_offsets` has no effect without `log`: leave it out")
    settings = changes.settings()
    if dry_run:
        state = controller.stream(stream)
        dropped_counts = operations.preview_settings(
            state, settings, state.served_ms(controller.now)
        )
        record = replace(state.record, logs=operations.add_log(state.record, log))
        summary = replace(state.summary(), record=record)
        return reply(build_stream(summary, DroppedAnswer, dropped=dropped_counts))
    state, is_new = await controller.put_stream(stream, settings, order, log=log)
    return reply(build_stream(state.summary()), 201 if is_new else 200)


@router.get("/{stream}", responses=declare(StreamAnswer))
async def get_stream(controller: ControllerDep, stream: StreamName) -> Response:
    """Return the stream's settings, creation id, last mark per domain and scale events."""
    return reply(build_stream(controller.stream(stream).summary()))


@router.delete("/{stream}", status_code=204)
async def delete_stream(controller: ControllerDep, stream: StreamName) -> Response:
    """Delete the stream with its marks, notes and readers."""
    await controller.drop_stream(stream)
    return Response(status_code=204)


@router.post("/{stream}/notes", responses=declare(NotesAnswer) | NOTES_REFUSED)
async def note_time(
    stream: StreamName, body: Annotated[NotesBody, Depends(BodyOf(NotesBody))]
) -> None:
    """Note time with up to 1000 notes. With status 200, every accepted note is durable.

    If every note is refused, the status is 422, and the problem also has the fields of this answer.
    """


@router.post("/{stream}/event-time-form", responses=declare(StreamAnswer))
async def state_event_time_form(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: Annotated[requests.EventTimeFormRequest, Depends(BodyOf(requests.EventTimeFormRequest))],
) -> Response:
    """State how the event times of a domain's log are read, before the first time is noted.

    The same form changes nothing. Another one is rejected.
    """
    state, _ = await controller.change(
        stream, operations.state_event_time_form, order, body.to_form(), body.domain
    )
    return reply(build_stream(state.summary()))


@router.put("/{stream}/event-time-form", responses=declare(StreamAnswer))
async def replace_event_time_form(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: Annotated[requests.EventTimeFormRequest, Depends(BodyOf(requests.EventTimeFormRequest))],
) -> Response:
    """State another form for the rows after the present positions. Earlier rows keep theirs."""
    state, _ = await controller.change(
        stream, operations.state_event_time_form, order, body.to_form(), body.domain, replaces=True
    )
    return reply(build_stream(state.summary()))


@router.post("/{stream}/scale", responses=declare(StreamAnswer))
async def scale_stream(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    event: Annotated[requests.ScaleRequest, Depends(BodyOf(requests.ScaleRequest))],
) -> Response:
    """Seal segments at their final offsets and create their successors. Repeating it is a no-op."""
    scale_event = ScaleEvent(event.sealed, event.created)
    state, _ = await controller.change(stream, operations.scale, order, scale_event)
    return reply(build_stream(state.summary()))


@router.post("/{stream}/seal", responses=declare(SealedAnswer))
async def seal_stream(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: Annotated[requests.SealBody, Depends(BodyOf(requests.SealBody, is_optional=True))],
) -> Response:
    """End the stream for good: all members are finished, and each domain gets its last mark.

    Sending the same body again changes nothing.
    """
    request = SealRequest(body.cut, body.final_times)
    state, final_seal = await controller.seal(stream, order, request)
    return reply(build_stream(state.summary(), SealedAnswer, never_noted=final_seal.never_noted))


@router.post("/{stream}/truncate", responses=declare(TruncatedAnswer))
async def truncate_stream(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    body: Annotated[requests.TruncateRequest, Depends(BodyOf(requests.TruncateRequest))],
    *,
    dry_run: DryRunQuery = False,
) -> Response:
    """Drop the marks that readers at or after the cut do not need. The last mark is kept."""
    if dry_run:
        state = controller.stream(stream)
        truncation = operations.preview_truncation(state, body.cut)
    else:
        state, truncation = await controller.change(stream, operations.truncate, order, body.cut)
    return reply(build_stream(state.summary(), TruncatedAnswer, **truncation._asdict()))


@router.get("/{stream}/changes", responses=declare(ChangesPage))
async def list_changes(
    controller: ControllerDep,
    stream: StreamName,
    before: Annotated[int | None, Query(ge=1, le=MAX_INT64)] = None,
    limit: LimitQuery = 100,
) -> Response:
    """List the changes by operators, with caller and reason, newest first."""
    records = await controller.views.changes(stream, before=before, limit=limit + 1)
    changes = [
        ChangeAnswer(
            change.number,
            change.at,
            change.action,
            change.writer,
            change.old_values,
            change.new_values,
            change.by,
            change.comment,
        )
        for change in records[:limit]
    ]
    next_page = records[limit - 1].number if len(records) > limit else None
    return reply(ChangesPage(changes=changes, next=next_page))
