"""What the routes share: the controller they call and how they name a stream."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request

from controller.api.problems import MEDIA_TYPE
from controller.api.shapes import Name, Problem
from controller.service.controller import Controller
from controller.service.keyring import Holder


def the_controller(request: Request) -> Controller:
    """Return the controller that this app serves."""
    controller: Controller = request.app.state.controller
    return controller


def the_holder(request: Request) -> Holder:
    """Return who calls, whom the gate before this app has let in."""
    holder: Holder = request.state.holder
    return holder


HolderDep = Annotated[Holder, Depends(the_holder)]
ControllerDep = Annotated[Controller, Depends(the_controller)]
StreamName = Annotated[Name, Path(description="name of a stream")]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": text}
    for status, text in (
        (400, "Malformed JSON"),
        (401, "No token that counts"),
        (403, "Not with this token, or not from that web page"),
        (404, "No such thing"),
        (409, "Read again, then retry"),
        (413, "Body over 1 MiB"),
        (422, "A field does not fit"),
        (503, "No answer from the database, or too much waits: retry after a while"),
    )
}
