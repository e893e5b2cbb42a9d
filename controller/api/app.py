"""The ASGI application over one controller."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from controller.api import health, problems, readers, streams
from controller.api.front import Front
from controller.api.problems import MEDIA_TYPE
from noted_time.cut import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from controller.service.controller import Controller

DESCRIPTION = """Watermarks that the writers vouch for: writers note time, the controller aggregates
the notes to marks, readers turn their position into a time window. Errors are RFC 9457 problems."""


class Api(FastAPI):
    """A FastAPI app whose document is exact where the framework is not.

    It keeps every bound as a float, which the largest int64 is not, and says that a response with a
    model is plain JSON whatever media type was given.
    """

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = _exact(super().openapi())
            _name_problems(self.openapi_schema)
        return self.openapi_schema


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
                    content[MEDIA_TYPE] = content.pop("application/json")


def create_app(controller: Controller) -> ASGIApp:
    """Return the app; its lifespan starts and closes `controller`."""
    return Front(create_api(controller), controller)


def create_api(controller: Controller) -> FastAPI:
    """Return the FastAPI part, which also describes the hot route."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await controller.start()
        try:
            yield
        finally:
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
    )
    api.state.controller = controller
    problems.install(api)
    api.include_router(streams.router, prefix="/v1")
    api.include_router(readers.router, prefix="/v1")
    api.include_router(health.router)
    return api
