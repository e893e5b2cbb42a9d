"""Dependencies and parameters that the routes share."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Annotated

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
    known_names = _list_parameters(request)
    counts = Counter(name for name, _ in request.query_params.multi_items())
    unknown = islice((name for name in counts if name not in known_names), FAULTS_SHOWN)
    faults = [(name, describe_unknown("query parameter", name, [*known_names])) for name in unknown]
    repeated_names = (name for name in known_names if counts[name] > 1 and not known_names[name])
    faults += [(name, "is given more than once") for name in repeated_names]
    if faults:
        raise InvalidRequest([(format_path(("query", name)), fault) for name, fault in faults])


def _list_parameters(request: Request) -> dict[str, bool]:
    """Return the query parameters of the route, and whether each may be repeated."""
    operation_id = to_camel(request.scope["route"].name)
    paths = request.app.openapi()["paths"].values()
    operations = (operation for methods in paths for operation in methods.values())
    operation = next(
        operation for operation in operations if operation["operationId"] == operation_id
    )
    query_parameters = (
        parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
    )
    return {
        parameter["name"]: parameter["schema"].get("type") == "array"
        for parameter in query_parameters
    }
