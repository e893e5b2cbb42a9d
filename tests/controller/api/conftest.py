from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from controller.api.access import Gate
from controller.api.app import create_api
from controller.api.forwarding import Forwarding
from controller.api.middleware import Middleware
from controller.service.controller import Controller
from tests.support.http import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.controllers import GivenTime, WatchedMemory


@pytest.fixture
async def call(memory: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """Calls the real app, in which there is a stream `s` that marks every advance."""
    controller = Controller(memory, time.clocks())
    forwarding = Forwarding(controller)
    api = create_api(controller, Gate(), forwarding)
    app = Middleware(api, controller, Gate(), forwarding)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        caller = Caller(client, controller)
        await caller.put("/v1/streams/s", {"mark_interval_ms": 0})
        yield caller
