from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import httpx
import pytest

from controller.api.app import create_api
from controller.api.front import Front
from controller.service.controller import Controller
from tests.support.controllers import WatchedMemory
from tests.support.http import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.controllers import GivenTime


@pytest.fixture
def store() -> WatchedMemory:
    """A watched store in memory: what databases do is tested below HTTP."""
    return WatchedMemory()


@asynccontextmanager
async def calling(store: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """Call the real app with its lifespan, in this process."""
    controller = Controller(store, time.clocks())
    api = create_api(controller)
    transport = httpx.ASGITransport(Front(api, controller), raise_app_exceptions=False)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://controller") as client,
    ):
        yield Caller(client, cast("str", ""), controller)


@pytest.fixture
async def call(store: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """Calls the app, in which there is a stream `s` that marks every advance."""
    async with calling(store, time) as caller:
        await caller.put("/v1/streams/s", {"mark_interval_ms": 0})
        yield caller
