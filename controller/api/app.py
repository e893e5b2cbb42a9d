"""The ASGI application over one controller."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from controller.api import health, problems, readers, streams
from controller.api.front import Front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from controller.service.controller import Controller

DESCRIPTION = """Watermarks that the writers vouch for: writers note time, the controller aggregates
the notes to marks, readers turn their position into a time window. Errors are RFC 9457 problems."""


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
    api = FastAPI(
        title="noted-time",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    api.state.controller = controller
    problems.install(api)
    api.include_router(streams.router, prefix="/v1")
    api.include_router(readers.router, prefix="/v1")
    api.include_router(health.router)
    return api
