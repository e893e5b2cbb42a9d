"""A replica in the test's process; the test simulates leases and the other replica."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from controller.aggregation.owned_streams import bucket_of
from controller.api.gate.access import FORWARDED_PATH, Gate
from controller.api.replicas.forwarding import Forwarding, Item
from controller.api.replicas.shared_secret import SECRET_HEADER
from controller.api.wire.responses import Answer
from controller.service.controller import Controller
from controller.service.limits import Limits
from controller.store.port import Leases
from tests.support.controllers import WatchedMemory, wait_until_async
from tests.support.http import problem, serve_app

BUCKETS = 64
OTHER = "http://other"
MINE = frozenset(range(0, BUCKETS, 2))
RESULTS = Answer.of(200, b'{"results":[{"status":"accepted","lower":5}]}')


class Shared(WatchedMemory):
    """A database where this replica owns every second bucket, and another replica the rest."""

    local = False

    def __init__(self) -> None:
        super().__init__()
        self._clocks = dict.fromkeys(range(BUCKETS), 0)
        self.leases = Leases(BUCKETS, MINE, dict.fromkeys(range(1, BUCKETS, 2), OTHER), 2)
        self.renewal: bool | Exception = True

    def heartbeat(self) -> Leases:
        """Return the answer that the test gives."""
        return self.leases

    def renew(self) -> bool:
        """Return or raise what the test gives."""
        if isinstance(self.renewal, Exception):
            raise self.renewal
        return self.renewal

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire free buckets."""
        taken_buckets = self.leases.free & set(buckets)
        self.leases = replace(self.leases, mine=self.leases.mine | taken_buckets)
        return taken_buckets

    def release(self, buckets: Iterable[int]) -> None:
        self.leases = replace(self.leases, mine=self.leases.mine - set(buckets))

    def leave(self) -> None:
        """Release all buckets to no replica."""
        self.leases = replace(self.leases, mine=frozenset(), replicas=self.leases.replicas - 1)


def is_never_due(_: object) -> bool:
    """Stand in for `Ownership.is_due`, so that no turn comes."""
    return False


def list_statuses(answers: Iterable[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


def list_codes(answers: Iterable[httpx.Response]) -> list[tuple[int, str]]:
    """Return status and code of each refusal."""
    return [problem(answer)[:2] for answer in answers]


def list_sizes(frames: Iterable[list[Item]]) -> list[int]:
    """Return the number of requests in each frame."""
    return [len(frame) for frame in frames]


def encode_frame(items: list[Item]) -> bytes:
    return msgspec.msgpack.encode(items)


def decode_answers(reply: bytes) -> list[Answer]:
    """Return the answers to the requests of a frame."""
    return msgspec.msgpack.decode(reply, type=list[Answer])


def name_stream(bucket: int) -> str:
    """Return the name of a stream in this bucket."""
    return next(name for n in range(9999) if bucket_of(name := f"s{n}", BUCKETS) == bucket)


HERE = name_stream(0)
THERE = name_stream(1)
"""A stream of this replica and one of the other."""

ELSEWHERE = "http://third"
"""The URL of a third replica."""

TROUBLES = [
    httpx.ConnectError("connection refused"),
    httpx.ConnectTimeout("no route"),
    httpx.ReadTimeout("no answer"),
    httpx.RemoteProtocolError("hung up"),
    httpx.ReadError("broken off"),
]
"""Possible outcomes of a request to another replica: the first two did not reach it."""


@dataclass
class Owner:
    """The other replica, as a transport.

    `frames` are the received requests with notes, and `asked` all others. `answer` answers each
    item, and `reply` any other request. Each request first raises the next error of `trouble`.
    Frames without the `secret` are refused, if there is one.
    """

    frames: list[list[Item]] = field(default_factory=list)
    secret: bytes | None = None
    asked: list[httpx.Request] = field(default_factory=list)
    answer: Callable[[Item], Answer] = lambda _: RESULTS
    reply: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200, json={})
    trouble: list[Exception] = field(default_factory=list)
    before: Callable[[], Awaitable[object]] | None = None

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != FORWARDED_PATH:
            self.asked.append(request)
            self._raise()
            return self.reply(request)
        items = msgspec.msgpack.decode(request.content, type=list[Item])
        self.frames.append(items)
        if self.secret not in {None, request.headers[SECRET_HEADER.decode()].encode()}:
            return httpx.Response(403)
        if self.before is not None:
            await self.before()
        self._raise()
        answers = [self.answer(item) for item in items]
        return httpx.Response(200, content=msgspec.msgpack.encode(answers))

    def _raise(self) -> None:
        if self.trouble:
            raise self.trouble.pop(0)


@dataclass
class Replica:
    """A client of the replica, the store that knows the owners, and the other replica."""

    client: httpx.AsyncClient
    controller: Controller
    forwarding: Forwarding
    store: Shared
    owner: Owner

    async def send(self, frame: bytes, secret: bytes | None = None) -> httpx.Response:
        """Send a frame as another replica does, or with another secret."""
        secret_header = {SECRET_HEADER: self.store.replicas_secret() if secret is None else secret}
        return await self.client.post(FORWARDED_PATH, content=frame, headers=secret_header)

    async def note(self, stream: str, *writers: str, **headers: str) -> httpx.Response:
        """Note time 5 for these writers."""
        notes = [{"writer": writer, "time": 5} for writer in writers or ["w"]]
        body = {"notes": notes}
        return await self.client.post(f"/v1/streams/{stream}/notes", json=body, headers=headers)

    def set_owner(self, owner: str | None, *, replicas: int = 2) -> None:
        """Set the owner of bucket 1 and the number of replicas."""
        other_owners = dict(self.store.leases.others)
        other_owners.pop(1, None)
        if owner is not None:
            other_owners[1] = owner
        self.store.leases = replace(self.store.leases, others=other_owners, replicas=replicas)
        self.controller.ownership.refresh_soon()

    async def explain(self, stream: str) -> httpx.Response:
        return await self.client.get(f"/v1/streams/{stream}/explain")

    async def wait_until_sure(self) -> None:
        """Wait until the replica knows that its leases have not ended."""
        await wait_until_async(lambda: self.controller.ownership.is_sure)

    async def wait_until_unsure(self) -> None:
        await wait_until_async(lambda: not self.controller.ownership.is_sure)

    async def wait_until_released(self) -> None:
        """Wait until the replica no longer owns `HERE`."""
        await wait_until_async(lambda: not self.controller.owns(HERE))

    async def wait_for_owner(self, url: str | None) -> None:
        """Wait until the replica knows the owner of `THERE`."""
        await wait_until_async(lambda: self.controller.ownership.owner_url(THERE) == url)

    async def wait_for_depth(self, depth: int) -> None:
        """Wait until so many requests wait for the next commit."""
        await wait_until_async(lambda: self.controller._committer.depth >= depth)

    async def wait_for_frames(self) -> None:
        await wait_until_async(lambda: bool(self.owner.frames))

    async def lose(self, *calls: Callable[[], Coroutine[Any, Any, httpx.Response]]) -> list[Any]:
        """Lose bucket 0 while these requests wait for a commit, and return their answers."""
        ownership = self.controller.ownership
        clocks = self.controller._clocks
        async with self.store.watch.hold(self.controller.put_stream(HERE, {})) as held_up:
            ownership.refresh_soon()
            # a turn comes before the next batch
            await wait_until_async(lambda: ownership.is_due(clocks.read()))
            waiting = [asyncio.create_task(call()) for call in calls]
            await self.wait_for_depth(len(calls))
            was = self.store.leases
            other_owners = {**was.others, 0: OTHER}
            self.store.leases = replace(was, mine=was.mine - {0}, others=other_owners)
        await asyncio.wait([held_up])
        return list(await asyncio.gather(*waiting))


@asynccontextmanager
async def run_replica(
    gate: Gate | None = None, limits: Limits | None = None
) -> AsyncIterator[Replica]:
    """Serve by one replica that has the stream `HERE`; the other replica has `THERE`."""
    store = Shared()
    owner = Owner()
    controller = Controller(store, limits=limits)
    async with serve_app(controller, gate, peers=httpx.MockTransport(owner)) as caller:
        await controller.put_stream(HERE, {"mark_interval_ms": 0})
        yield Replica(caller.client, controller, caller.forwarding, store, owner)
