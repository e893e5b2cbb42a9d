"""What the routes share: the controller they call and how they name a stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.exceptions import RequestValidationError

from controller.api.access import Call
from controller.api.fields import parameters_of_request
from controller.api.problems import EXTRA
from controller.api.shapes import Name
from controller.service.controller import Controller


async def the_controller(request: Request) -> Controller:
    """Return the controller that this app serves."""
    controller: Controller = request.app.state.controller
    return controller


async def the_call(request: Request) -> Call:
    """Return the call as the middleware in front of this app admitted it."""
    call: Call = request.state.call
    return call


CallDep = Annotated[Call, Depends(the_call)]
ControllerDep = Annotated[Controller, Depends(the_controller)]
StreamName = Annotated[Name, Path(description="name of a stream")]


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have, as unknown fields are."""
    if not request.query_params:
        return
    known = parameters_of_request(request)
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise RequestValidationError(
            [{"type": EXTRA, "loc": ("query", name), "msg": "", "input": None} for name in unknown]
        )
