from unittest.mock import AsyncMock

import pytest

from controller.api import middleware
from controller.api.gate.admitted import StreamRequest
from controller.api.routes.readers import answer_marks
from controller.api.wire.responses import Answer
from controller.service.controller import Controller
from tests.support.http import Caller

S = "/v1/streams/s"
NOTE = {"writer": "UA", "time": 5, "position": {"0": 10, "3": 7}, "max_time": 8}


async def test_marks_are_json_for_every_accept_header(call: Caller) -> None:
    """The controller has no server-sent events."""
    await call.note(NOTE)
    events = {"accept": "text/event-stream"}
    answer = await call.client.get(f"{S}/marks", headers=events)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == (await call.get(f"{S}/marks")).json()


@pytest.mark.parametrize(
    ("path", "way"),
    [
        (f"{S}/marks", "short"),
        (f"{S}/marks?after=1&limit=1&wait_ms=0&domain=default", "short"),
        (f"{S}/marks?after=7", "short"),
        (f"{S}/marks?domain=absent", "short"),
        ("/v1/streams/absent/marks", "short"),
        (f"{S}/marks?limit=0", "long"),
        (f"{S}/marks?after=1&after=2", "long"),
        (f"{S}/marks?after=", "long"),
        (f"{S}/marks?afetr=1", "long"),
        (f"{S}/marks?wait_ms=1e3", "long"),
        (f"{S}/marks?domain=..", "long"),
        (f"{S}/marks/", "long"),
    ],
)
async def test_marks_are_equal_with_and_without_framework(
    call: Caller, monkeypatch: pytest.MonkeyPatch, path: str, way: str
) -> None:
    ways: list[str] = []

    async def watch(controller: Controller, request: StreamRequest) -> Answer | None:
        answer = await answer_marks(controller, request)
        ways.append("long" if answer is None else "short")
        return answer

    await call.note(NOTE, NOTE | {"time": 6, "position": {"0": 11, "3": 7}})
    monkeypatch.setattr(middleware, "answer_marks", watch)
    first = await call.client.get(path)
    monkeypatch.setattr(middleware, "answer_marks", AsyncMock(return_value=None))
    second = await call.client.get(path)

    assert ways == [way]
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.headers == second.headers
