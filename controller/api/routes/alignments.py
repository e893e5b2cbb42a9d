"""Routes of alignments: the list, settings, and the reports of members."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import ConfigDict, Field, model_validator

from controller.api.fleet.group_times import GroupTimes
from controller.api.gate import audit
from controller.api.gate.admitted import Call
from controller.api.gate.audit import Attempt
from controller.api.routes.deps import CallDep, ControllerDep, Limit, part_of_the_app
from controller.api.wire.answer_shapes import (
    AlignmentAnswer,
    AlignmentRow,
    AlignmentsPage,
    made_of,
)
from controller.api.wire.problems import PROBLEMS, problem
from controller.api.wire.replies import reply, shape
from controller.api.wire.shapes import Int64, Name
from controller.api.wire.shapes import Request as Body
from controller.service.controller import Controller
from noted_time.progress import AlignmentSettings, GroupOfStream
from noted_time.values import MAX_INT64

EITHER = "pass `time`, or `stream` and `group`"


class AlignmentRequest(Body):
    """The settings of an alignment."""

    max_drift: Annotated[int, Field(ge=1, le=MAX_INT64)] = Field(
        description="how far the others may be ahead of the slowest, in the unit of their times"
    )
    member_timeout_ms: Annotated[int, Field(ge=1, le=MAX_INT64)] = Field(
        30_000, description="a member that is silent for this long is not counted"
    )


class MemberReport(Body):
    """A member's time, or the reader group whose window has it.

    Optional fields are omitted rather than null, except the time of a member without one.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "dependentRequired": {"stream": ["group"], "group": ["stream"], "domain": ["stream"]},
            "not": {"required": ["time", "stream"]},
        },
    )

    time: Int64 | None = Field(None, description="null: before it has one")
    state: Literal["live", "idle", "finished"] = "live"
    stream: Name = Field(default_factory=str)
    group: Name = Field(default_factory=str)
    domain: Name = Field(default_factory=str, description="by default the only one, or `default`")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        has_group = bool(self.group)
        if bool(self.stream) is not has_group or (self.domain and not has_group):
            raise ValueError(EITHER)
        if has_group and "time" in self.model_fields_set:
            raise ValueError(EITHER)
        return self


router = APIRouter(prefix="/alignments", tags=["alignments"], responses=PROBLEMS)


TimesDep = Annotated[GroupTimes, part_of_the_app("group_times")]
AlignmentName = Annotated[Name, Path(description="name of an alignment")]


@router.get("", response_model=shape(AlignmentsPage), operation_id="listAlignments")
async def list_alignments(
    controller: ControllerDep,
    call: CallDep,
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Limit = 100,
) -> Response:
    """List the alignments by name with their settings, those that the token may use."""
    may_align = call.holder.grant.may_align
    stored = [each for each in await controller.alignments.stored() if may_align(each.name)]
    stored = [each for each in stored if after is None or each.name > after]
    rows = [made_of(AlignmentRow, each.settings, name=each.name) for each in stored[:limit]]
    return reply(AlignmentsPage(rows, rows[-1].name if len(stored) > limit else None))


@router.put(
    "/{alignment}",
    response_model=shape(AlignmentAnswer),
    responses={201: {"model": shape(AlignmentAnswer), "description": "Created"}},
    operation_id="createOrUpdateAlignment",
)
async def put_alignment(
    controller: ControllerDep, call: CallDep, alignment: AlignmentName, body: AlignmentRequest
) -> Response:
    """Create the alignment, or replace its settings; its members stay."""
    settings = AlignmentSettings(body.max_drift, body.member_timeout_ms)
    is_new = await controller.alignments.put(alignment, settings)
    return _shown(controller, call, alignment, 201 if is_new else 200)


@router.get("/{alignment}", response_model=shape(AlignmentAnswer), operation_id="getAlignment")
async def get_alignment(
    controller: ControllerDep, call: CallDep, alignment: AlignmentName
) -> Response:
    """Return the settings, the bound, who holds it and every member."""
    return _shown(controller, call, alignment)


@router.delete("/{alignment}", status_code=204, operation_id="deleteAlignment")
async def delete_alignment(controller: ControllerDep, alignment: AlignmentName) -> Response:
    """Remove the alignment with its members."""
    await controller.alignments.drop(alignment)
    return Response(status_code=204)


@router.put(
    "/{alignment}/members/{member}",
    response_model=shape(AlignmentAnswer),
    operation_id="reportMember",
)
async def report(  # noqa: PLR0913 - who asks whom, and the two names of the path
    *,
    request: Request,
    controller: ControllerDep,
    call: CallDep,
    times: TimesDep,
    alignment: AlignmentName,
    member: Annotated[Name, Path(description="name of a member; a new one joins")],
    body: MemberReport,
) -> Response:
    """Report a member's time, or that it is where a reader group is now; returns the bound.

    A member reports again and again, so that it is not taken for silent.
    """
    time, state, asked = body.time, body.state, None
    if body.stream:
        asked = GroupOfStream(body.stream, body.group, body.domain or None)
        if not call.holder.grant.may_read(asked.stream):
            return _refused(call, asked.stream)
        controller.alignments.now(alignment)  # no owner is asked for one that does not exist
        time, at_end = await times.time(asked, request.headers.get("authorization"))
        state = at_end if state == "live" else state
    controller.alignments.report(alignment, member, time, state, group=asked, asker=call.asker)
    return _shown(controller, call, alignment)


def _refused(call: Call, stream: str) -> Response:
    """Refuse to reveal a time of a stream that the caller may not read."""
    tried = Attempt(f"align with {stream}", call.stream, call.remote)
    audit.refused(tried, "forbidden", call.holder)
    sentence = f"this token does not give the right to read stream {stream!r}"
    return problem(403, "forbidden", sentence, right="read").to_response()


def _shown(controller: Controller, call: Call, alignment: str, status: int = 200) -> Response:
    found = controller.alignments.now(alignment)
    return reply(AlignmentAnswer.of(alignment, *found, call.holder.grant.may_read), status)
