"""The app of a controller in the test's process, called without a socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from controller.api.app import create_api
from controller.api.gate.access import Gate
from controller.api.middleware import Middleware
from controller.api.replicas.forwarding import Forwarding
from controller.service.controller import Controller
from noted_time.coding import build_decoder, encode
from tools.trials.waiting import PATIENCE_S

JSON = {"content-type": "application/json"}


def as_json(value: object) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(encode(value))


def read_json(kind: Any, value: object) -> Any:  # noqa: ANN401 - a type and its value
    """Return a value as clients read it from its JSON."""
    return build_decoder(kind).decode(json.dumps(value).encode())


@dataclass
class Caller:
    """A client of one app, and its controller."""

    client: httpx.AsyncClient
    controller: Controller
    forwarding: Forwarding

    async def get(self, path: str, **query: Any) -> httpx.Response:  # noqa: ANN401 - any value
        return await self.client.get(path, params=query)

    async def put(self, path: str, body: object = None) -> httpx.Response:
        return await self.client.put(path, json=body)

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def send(self, method: str, path: str, body: bytes) -> httpx.Response:
        return await self.client.request(method, path, content=body, headers=JSON)

    async def note(self, *notes: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Note, and return the results; all notes must be accepted."""
        results = await self.try_to_note(*notes)
        refusals = list_refusals(results)
        assert refusals == [], refusals
        return results

    async def try_to_note(self, *notes: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Note, and return the results, of which some may be refusals."""
        answer = await self.post("/v1/streams/s/notes", {"notes": notes})
        assert answer.is_success or problem(answer)[1] == "notes_refused", answer.text
        return answer.json()["results"]


def list_refusals(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [result for result in results if result["status"] != "accepted"]


@asynccontextmanager
async def serve_app(
    controller: Controller, gate: Gate | None = None, peers: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Caller]:
    """Start the controller and its app, which calls replicas through `peers`.

    A request, and the controller's end, take at most `PATIENCE_S`.
    """
    gate = gate or Gate()
    forwarding = Forwarding(controller, peers)
    api = create_api(controller, gate, forwarding)
    app = Middleware(api, controller, gate, forwarding)

    async def answer(*call: Any) -> None:  # noqa: ANN401 - an ASGI call
        async with asyncio.timeout(PATIENCE_S):
            await app(*call)

    transport = httpx.ASGITransport(answer, raise_app_exceptions=False)
    async with (
        asyncio.timeout(None) as limit,
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        try:
            yield Caller(client, controller, forwarding)
        finally:
            limit.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    """Return status, code and detail; the answer must be a problem document."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["type"]) == (
        answer.status_code,
        f"urn:noted-time:problem:{body['code']}",
    )
    return answer.status_code, body["code"], body["detail"]


def places(answer: httpx.Response) -> list[str]:
    """Return the places of a request that an invalid_request contains."""
    return [error["where"] for error in answer.json().get("errors", [])]
