"""Dependencies and parameters that the routes share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Path, Query, Request
from pydantic.alias_generators import to_camel

from controller.aggregation.operations import Order
from controller.api.gate.admitted import Call
from controller.api.wire.bodies import InvalidRequest, check_names_once, convert_given
from controller.api.wire.requests import LineParameter, NameParameter
from controller.service.controller import Controller
from noted_time.values import Position
from noted_time.wording.faults import FAULTS_SHOWN, describe_unknown, format_path

POSITION_PLACE = ("query", "position")


async def get_controller(request: Request) -> Controller:
    controller: Controller = request.app.state.controller
    return controller


async def get_call(request: Request) -> Call:
    call: Call = request.state.call
    return call


CallDep = Annotated[Call, Depends(get_call)]
ControllerDep = Annotated[Controller, Depends(get_controller)]
CommentQuery = Annotated[
    LineParameter | None,
    Query(min_length=1, max_length=500, description="why, in one line; recorded with the change"),
]


async def get_order(call: CallDep, comment: CommentQuery = None) -> Order:
    return Order(call.holder.token_id or call.remote, comment, call.holder.label)


OrderDep = Annotated[Order, Depends(get_order)]


async def parse_position(
    position: Annotated[
        str | None,
        Query(
            description='how far a reader has read: a position in JSON, such as `{"0": 120}`',
            json_schema_extra={"contentMediaType": "application/json"},
        ),
    ] = None,
) -> Position | None:
    if position is None:
        return None
    try:
        content = msgspec.json.decode(position)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest([(".".join(POSITION_PLACE), f"must be JSON: {error}")]) from error
    parsed_position: Position = convert_given(Position, content, POSITION_PLACE)
    check_names_once(position, POSITION_PLACE)
    return parsed_position


PositionDep = Annotated[Position | None, Depends(parse_position)]
StreamName = Annotated[NameParameter, Path(description="name of a stream")]
DomainQuery = Annotated[
    NameParameter | None, Query(description="by default the only one, or `default`")
]
LimitQuery = Annotated[int, Query(ge=1, le=1000)]
StartQuery = Annotated[int, Query(ge=0, le=10**9)]


async def check_parameters(request: Request) -> None:
    """Raise `InvalidRequest` for query parameters that are unknown or repeated."""
    if not request.query_params:
        return
    may_repeat = _list_parameters(request)
    counts = Counter(name for name, _ in request.query_params.multi_items())
    faults = []
    unknown_names = [name for name in counts if name not in may_repeat]
    for name in unknown_names[:FAULTS_SHOWN]:
        fault = describe_unknown("query parameter", name, [*may_repeat])
        faults.append((format_path(("query", name)), fault))
    for name in may_repeat:
        if counts[name] > 1 and not may_repeat[name]:
            faults.append((format_path(("query", name)), "is given more than once"))
    if faults:
        raise InvalidRequest(faults)


def _list_parameters(request: Request) -> dict[str, bool]:
    """Return the query parameters of the route, and whether each may be repeated."""
    may_repeat = {}
    for parameter in _find_operation(request).get("parameters", ()):
        if parameter["in"] == "query":
            may_repeat[parameter["name"]] = parameter["schema"].get("type") == "array"
    return may_repeat


def _find_operation(request: Request) -> Mapping[str, Any]:
    operation_id = to_camel(request.scope["route"].name)
    for operations in request.app.openapi()["paths"].values():
        for operation in operations.values():
            if operation["operationId"] == operation_id:
                found_operation: Mapping[str, Any] = operation
                return found_operation
    raise LookupError(operation_id)
