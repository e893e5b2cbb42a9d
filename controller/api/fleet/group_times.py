"""How far a reader group of some stream is in time, whichever controller owns the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from controller.aggregation.owned_streams import NotOwner
from controller.api.gate.admitted import StreamRequest
from controller.api.wire.answers import Answer
from controller.api.wire.problems import refusal_of
from controller.api.wire.reader_answers import states_of, windows_of
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from noted_time.client import kind_of
from noted_time.progress import GroupOfStream
from noted_time.values import (
    NotedTimeError,
    State,
    UnknownDomain,
    UnknownReader,
    UnknownStream,
    unnamed_domain,
)

ANSWER_S = 2.0
"""How long the owner may take: less than the controller that forwarded the request here waits."""

OK = 200


class GroupTimes:
    """Asks the owners of streams for the windows of reader groups; alone, this controller."""

    def __init__(
        self, controller: Controller, by_owner: Callable[..., Awaitable[Answer]] | None
    ) -> None:
        """`by_owner` has the owner of a stream answer a request, as `Forwarding.answer` does."""
        self._controller = controller
        self._by_owner = by_owner

    async def time(
        self, asked: GroupOfStream, authorization: str | None
    ) -> tuple[int | None, State]:
        """Return the lower of the group's window, `None` before it has one, and its state.

        At the end of a sealed or quiet stream no member waits for the group. Another controller is
        shown the caller's token. Raises `UnknownStream`, `UnknownReader`, `UnknownDomain`, and
        `StoreUnavailable` if the owner does not answer in time.
        """
        answer = await self._answer(asked, authorization)
        body = _object(answer.body)
        if answer.status != OK:
            raise _failure(asked, body)
        windows = body["windows"]
        domain = asked.domain or unnamed_domain(windows)
        if domain not in windows:
            raise UnknownDomain(domain, windows)
        lower: int | None = windows[domain]["lower"]
        return lower, body.get("states", {}).get(domain, "live")

    async def _answer(self, asked: GroupOfStream, authorization: str | None) -> Answer:
        if self._by_owner is None:
            return await self._here(asked)
        path = f"/v1/streams/{asked.stream}/reader-groups/{asked.group}"
        shown = [] if authorization is None else [(b"authorization", authorization.encode())]
        scope = {
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": shown,
        }
        request = StreamRequest(asked.stream, scope, b"")
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._by_owner(request, lambda _: self._here(asked))
        except TimeoutError as error:
            message = f"the owner of stream {asked.stream!r} gave no answer in time; ask again"
            raise StoreUnavailable(message) from error

    async def _here(self, asked: GroupOfStream) -> Answer:
        try:
            stream = self._controller.stream(asked.stream)
            group = stream.groups[asked.group]
        except (NotedTimeError, NotOwner) as error:
            return refusal_of(error)
        found = {"windows": windows_of(stream, group), "states": states_of(stream, group)}
        return Answer.of(OK, msgspec.json.encode(found))


def _failure(asked: GroupOfStream, problem: dict[str, Any]) -> Exception:
    """Return the error that the owner answered."""
    kind = kind_of(problem)
    if kind == "unknown_reader":
        return UnknownReader(asked.group)
    if kind == "unknown_stream":
        return UnknownStream(asked.stream)
    why = problem.get("detail", "its owner did not answer")
    return StoreUnavailable(f"the time of a group of stream {asked.stream!r} is not known: {why}")


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
