from collections.abc import AsyncIterator

import pytest

from controller.service.controller import Controller
from tests.support.controllers import GivenTime, WatchedMemory
from tests.support.http import Caller, answering


@pytest.fixture
async def call(memory: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """Calls the real app, in which there is a stream `s` that marks every advance."""
    async with answering(Controller(memory, time.clocks())) as caller:
        await caller.put("/v1/streams/s", {"mark_interval_ms": 0})
        yield caller
