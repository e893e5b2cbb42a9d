"""Routes of alignments: settings, and the reports of members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from controller.api import audit
from controller.api.alignment_shapes import AlignmentRequest, AlignmentShape, MemberReport
from controller.api.audit import Attempt
from controller.api.deps import CallDep, ControllerDep
from controller.api.group_times import GroupOfStream, GroupTimes
from controller.api.problems import PROBLEMS, problem
from controller.api.replies import reply
from controller.api.shapes import Name
from noted_time.alignment import AlignmentSettings

if TYPE_CHECKING:
    from controller.api.access import Call
    from controller.service.controller import Controller

router = APIRouter(prefix="/alignments/{alignment}", tags=["alignments"], responses=PROBLEMS)
AlignmentName = Annotated[Name, Path(description="name of an alignment")]


async def the_group_times(request: Request) -> GroupTimes:
    """Return what asks the owners of streams."""
    times: GroupTimes = request.app.state.group_times
    return times


@router.put(
    "",
    response_model=AlignmentShape,
    responses={201: {"model": AlignmentShape, "description": "Created"}},
    operation_id="createOrUpdateAlignment",
)
async def put_alignment(
    controller: ControllerDep, alignment: AlignmentName, body: AlignmentRequest
) -> Response:
    """Create the alignment, or replace its settings; its members stay."""
    settings = AlignmentSettings(body.max_drift, body.member_timeout_ms)
    is_new = await controller.alignments.put(alignment, settings)
    return _shown(controller, alignment, 201 if is_new else 200)


@router.get("", response_model=AlignmentShape, operation_id="getAlignment")
async def get_alignment(controller: ControllerDep, alignment: AlignmentName) -> Response:
    """Return the settings, the bound, who holds it and every member."""
    return _shown(controller, alignment)


@router.delete("", status_code=204, operation_id="deleteAlignment")
async def delete_alignment(controller: ControllerDep, alignment: AlignmentName) -> Response:
    """Remove the alignment with its members."""
    await controller.alignments.drop(alignment)
    return Response(status_code=204)


@router.put("/members/{member}", response_model=AlignmentShape, operation_id="reportMember")
async def report(  # noqa: PLR0913 - who asks whom, and the two names of the path
    *,
    request: Request,
    controller: ControllerDep,
    call: CallDep,
    times: Annotated[GroupTimes, Depends(the_group_times)],
    alignment: AlignmentName,
    member: Annotated[Name, Path(description="name of a member; a new one joins")],
    body: MemberReport,
) -> Response:
    """Report a member's time, or that it is where a reader group is now; returns the bound.

    A member reports again and again, so that it is not taken for silent.
    """
    time = body.time
    if body.stream:
        asked = GroupOfStream(body.stream, body.group, body.domain or None)
        if not call.holder.grant.may_read(asked.stream):
            return _refused(call, asked.stream)
        controller.alignments.now(alignment)  # nobody is asked for one that is not there
        time = await times.lower(asked, request.headers.get("authorization"))
    controller.alignments.report(alignment, member, time, body.state)
    return _shown(controller, alignment)


def _refused(call: Call, stream: str) -> Response:
    """Refuse to tell a time of a stream that the caller may not read."""
    tried = Attempt(f"align with {stream}", call.stream, call.remote)
    audit.refused(tried, "forbidden", call.holder.token_id)
    sentence = f"this token does not give the right to read stream {stream!r}"
    return problem(403, "forbidden", sentence, right="read").to_response()


def _shown(controller: Controller, alignment: str, status: int = 200) -> Response:
    settings, now = controller.alignments.now(alignment)
    body = {
        "name": alignment,
        "max_drift": settings.max_drift,
        "member_timeout_ms": settings.member_timeout_ms,
        "bound": now.bound,
        "held_by": now.held_by,
        "members": {name: member._asdict() for name, member in now.members.items()},
    }
    return reply(body, status)
