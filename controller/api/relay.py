"""Requests for streams that another controller has: passed on to it, and its answer passed back.

Of several controllers on one database each answers for every stream. The one that has a stream's
bucket takes in all its notes and other changes, and the rest relay them to it: so whatever any
controller acknowledged went through the one task that makes the stream's marks. What is read of
marks alone is answered on the spot, from the database; see `controller.service.following`.

While a bucket has no owner, or the one it had does not answer, requests are held until there is one
that does, for at most `HOLD_S`; not where this controller stops and was the last. To pass notes on
twice is harmless: a note that was taken is taken again as the replay it is. So are a `GET` and a
`PUT`, which done twice are done once. Any other request is only passed on again where it reached
nobody.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import httpx
import structlog

from controller.aggregation.world import NotHere
from controller.api.carrier import ANSWER_S, CONNECT_S, Carrier
from controller.api.lanes import Lane, Pending
from controller.api.notes import Answer, answer_notes, refusal
from controller.api.problems import MISDIRECTED
from controller.store.port import StoreUnavailable
from noted_time.controllers import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope

    from controller.api.access import Call
    from controller.service.controller import Controller

log = structlog.get_logger()

HEADER = b"noted-time-relayed"
"""Marks a request that was passed on, which is never passed on again."""

HOLD_S = 8.0
"""For how long a request waits for an owner that answers: two leases and a little."""

TRIMS = "/truncate"
"""The end of the path of what drops marks, which nobody reads again for every other change."""

AGAIN = frozenset(("GET", "PUT"))
UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL)

MOST_BYTES = 64 * 1024 * 1024
"""So much of requests with notes may wait: a million notes, in large requests."""

LOOK_AGAIN_S = 0.1

THERE = (b"authorization", b"content-type", b"accept")
BACK = (b"content-type", b"allow", b"retry-after", b"www-authenticate")
Headers = list[tuple[bytes, bytes]]


class Passed(NamedTuple):
    """The answer of another controller, with the headers that go back."""

    status: int
    headers: Headers
    body: bytes


class Relay:
    """Passes requests on to the other controllers of the database."""

    def __init__(self, controller: Controller) -> None:
        """Begin without connections."""
        self._controller = controller
        # by a transport of its own, so that no proxy of the environment stands between replicas
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            transport=httpx.AsyncHTTPTransport(limits=limits),
        )
        self._lanes: dict[str, Lane] = {}
        self._held: set[asyncio.Task[None]] = set()
        self._failing: set[str] = set()
        self._passing = self._bytes = 0

    def notes(self, call: Call, authorization: bytes, body: bytes) -> asyncio.Future[Answer]:
        """Pass a request with notes on.

        Raises `StoreUnavailable` where this controller does not know who has what, and `Overloaded`
        where too many requests wait.
        """
        self._controller.check_serving()
        self._check_room(len(body))
        self._passing += 1
        self._bytes += len(body)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        answer.add_done_callback(lambda _: self._answered(call.stream, len(body)))
        self._pass_on(Pending(call, authorization, body, answer, loop.time() + HOLD_S))
        return answer

    def hint(self, stream: str) -> list[tuple[bytes, bytes]]:
        """Return the header by which the next notes are sent to who has the stream."""
        owner = self._controller.elsewhere(stream)
        return [(OWNER.encode(), owner.encode())] if owner and owner.isascii() else []

    async def request(self, stream: str, scope: Scope, body: bytes) -> Passed | None:
        """Pass any other request on; returns `None` where the stream is this controller's by now.

        Raises `NotHere` where nobody has the stream for too long, and `StoreUnavailable`, also
        where it is not known whether the owner took the request.
        """
        self._controller.check_serving()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S
        while not self._controller.has(stream):
            url = self._controller.elsewhere(stream)
            passed = await self._sent(url, scope, body) if url else None
            if passed is not None and passed.status != MISDIRECTED:
                self._controller.doubt(stream, trimmed=scope["path"].endswith(TRIMS))
                return passed
            if loop.time() >= deadline or self._controller.is_last():
                raise NotHere(stream)
            await self._controller.change(LOOK_AGAIN_S)
        return None

    async def close(self) -> None:
        """Hang up on everybody."""
        for task in self._held:
            task.cancel()
        for lane in self._lanes.values():
            lane.close()
        await self._client.aclose()

    def _check_room(self, more: int) -> None:
        most = self._controller.limits.waiting_requests
        full = self._passing >= most or (self._passing and self._bytes + more > MOST_BYTES)
        if full:
            raise self._controller.metrics.overload(
                f"{self._passing} requests wait for another controller; try again"
            )

    def _answered(self, stream: str, size: int) -> None:
        self._passing -= 1
        self._bytes -= size
        self._controller.doubt(stream)

    def _pass_on(self, pending: Pending) -> None:
        url = self._controller.elsewhere(pending.call.stream)
        if url is None:
            self._hold([pending])
        else:
            self._lane(url).put(pending)

    def _lane(self, url: str) -> Lane:
        lane = self._lanes.get(url)
        if lane is None:
            lane = self._lanes[url] = Lane(url, self._carrier(url), self._back)
        return lane

    def _carrier(self, url: str) -> Carrier:
        return Carrier(url)

    def _back(self, back: Iterable[Pending]) -> None:
        self._controller.look_again()
        self._hold(back)

    def _hold(self, back: Iterable[Pending]) -> None:
        for pending in back:
            task = asyncio.create_task(self._try_again(pending), name="held")
            self._held.add(task)
            task.add_done_callback(self._held.discard)

    async def _try_again(self, pending: Pending) -> None:
        """Wait for other leases, or a moment; then answer here, or pass the request on."""
        stream = pending.call.stream
        await self._controller.change(LOOK_AGAIN_S)
        if pending.answer.done():
            return
        if self._controller.has(stream):
            answer = await answer_notes(self._controller, pending.call, pending.body)
            if answer[0] == MISDIRECTED:
                self._pass_on(pending)
            else:
                pending.settle(answer)
        elif self._controller.is_last() or asyncio.get_running_loop().time() >= pending.deadline:
            pending.settle(refusal(NotHere(stream), stream, pending.body))
        else:
            self._pass_on(pending)

    async def _sent(self, url: str, scope: Scope, body: bytes) -> Passed | None:
        """Return the answer of the controller at `url`, `None` where to ask again is harmless."""
        query = scope["query_string"]
        path = scope["raw_path"].partition(b"?")[0] + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name in THERE]
        try:
            reply = await self._client.request(
                scope["method"],
                f"{url}{path.decode('latin-1')}",
                content=body,
                headers=[*headers, (HEADER, b"1")],
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if url not in self._failing:  # said once until it answers
                log.warning("relay_failed", url=url, error=repr(error))
                self._failing.add(url)
            self._controller.look_again()
            if scope["method"] in AGAIN or isinstance(error, UNREACHED):
                return None
            message = f"the controller that has the stream gave no answer: {error!r}; ask again"
            raise StoreUnavailable(message) from error
        self._failing.discard(url)
        back = [(name.lower(), value) for name, value in reply.headers.raw]
        return Passed(reply.status_code, [each for each in back if each[0] in BACK], reply.content)


def is_relayed(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request was passed on by another controller."""
    return any(name == HEADER for name, _ in headers)
