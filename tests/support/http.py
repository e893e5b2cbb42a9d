"""Calls of the HTTP API in few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from controller.service.controller import Controller

JSON = {"content-type": "application/json"}


@dataclass
class Caller:
    """A client of one app, and the controller behind it."""

    client: httpx.AsyncClient
    controller: Controller

    async def get(self, path: str, **query: Any) -> httpx.Response:  # noqa: ANN401 - any value
        """GET the path."""
        return await self.client.get(path, params=query)

    async def put(self, path: str, body: object = None) -> httpx.Response:
        """PUT the body, as JSON."""
        return await self.client.put(path, json=body)

    async def post(self, path: str, body: object) -> httpx.Response:
        """POST the body, as JSON."""
        return await self.client.post(path, json=body)

    async def send(self, method: str, path: str, body: bytes) -> httpx.Response:
        """Send these bytes as if they were JSON."""
        return await self.client.request(method, path, content=body, headers=JSON)

    async def note(self, *notes: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Note to the stream `s`; returns the results."""
        answer = await self.post("/v1/streams/s/notes", {"notes": notes})
        assert answer.is_success or problem(answer)[1] == "notes_refused", answer.text
        return answer.json()["results"]


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
    """Return the places of a request that an invalid_request names."""
    return [each["where"] for each in answer.json().get("errors", [])]
