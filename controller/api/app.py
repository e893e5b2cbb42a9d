"""The ASGI application over one controller."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from controller.api import audit, health, problems, readers, streams
from controller.api.access import Gate
from controller.api.front import Front
from controller.api.problems import MEDIA_TYPE
from controller.api.relay import Relay
from controller.api.rights import OPEN
from controller.service import traces
from noted_time.cut import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from controller.service.controller import Controller

DESCRIPTION = """Watermarks that the writers vouch for: writers note time, the controller aggregates
the notes to marks, readers turn their position into a time window. Errors are RFC 9457 problems."""


class Api(FastAPI):
    """A FastAPI app whose document is exact where the framework is not.

    It keeps every bound as a float, which the largest int64 is not, says that a response with a
    model is plain JSON whatever media type was given, and knows nothing of the gate before it.
    """

    gate: Gate

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document; a token is optional in it while none is asked for."""
        if self.openapi_schema is None:
            self.openapi_schema = _exact(super().openapi())
            _name_problems(self.openapi_schema)
            _secure(self.openapi_schema)
        anybody: list[dict[str, Any]] = [] if self.gate.asks() else [{}]
        return self.openapi_schema | {"security": [{"token": []}, *anybody]}


def _exact(part: Any) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(part, dict):
        return {name: _exact(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_exact(value) for value in part]
    if isinstance(part, float) and part.is_integer():
        return min(int(part), MAX_INT64)
    return part


def _name_problems(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                content = response.get("content", {})
                if MEDIA_TYPE in content:
                    (named,) = content.keys() - {MEDIA_TYPE}  # the route's, whatever that is
                    content[MEDIA_TYPE] = content.pop(named)


def _secure(document: dict[str, Any]) -> None:
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer", "bearerFormat": "nt_<id>_<secret>"}
    for path in OPEN & document["paths"].keys():
        for operation in document["paths"][path].values():
            operation["security"] = []


def create_app(
    controller: Controller, gate: Gate | None = None, relay: Relay | None = None
) -> ASGIApp:
    """Return the app behind `gate`; its lifespan starts and closes `controller`.

    Without a gate of one's own it lets everybody in, but for the web pages of strangers.
    """
    gate, relay = gate or Gate(), relay or Relay(controller)
    return Front(create_api(controller, gate, relay), controller, gate, relay)


def create_api(
    controller: Controller, gate: Gate | None = None, relay: Relay | None = None
) -> FastAPI:
    """Return the FastAPI part, which also describes the hot route; the others stand before it."""
    keyring = gate.keyring if gate else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await controller.start()
        try:
            async with keyring.watching() if keyring else nullcontext(), audit.watching():
                yield
        finally:
            if relay:
                await relay.close()
            await controller.close()

    # The interactive pages load scripts from elsewhere; the document itself is served.
    api = Api(
        title="noted-time",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # metrics are Prometheus' to fetch, and the log is on standard error
        telemetry={"auto_configure": traces.can_be_sent(), "metrics": False, "logs": False},
    )
    api.gate = gate or Gate()
    api.state.controller = controller
    problems.install(api)
    api.include_router(streams.router, prefix="/v1")
    api.include_router(readers.router, prefix="/v1")
    api.include_router(health.router)
    return api
