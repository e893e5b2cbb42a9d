"""Frames on their way, to a controller that a test plays byte by byte."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from controller.api import carrier
from controller.api.carrier import Carrier, Undelivered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nreply"


class Owner:
    """Answers each request with the next of `answers`, in pieces; an empty one hangs up."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[list[bytes]] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.hangs_up_after = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                for piece in self.answers.pop(0):
                    if not piece:
                        return
                    writer.write(piece)
                    await asyncio.sleep(0.01)
                if self.hangs_up_after:
                    return
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def carried() -> AsyncIterator[tuple[Owner, Carrier]]:
    """A carrier to an owner that listens."""
    owner = Owner()
    server = await asyncio.start_server(owner.serve, "127.0.0.1", 0)
    owner.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    made = Carrier(owner.url)
    try:
        yield owner, made
    finally:
        made.close()
        server.close()
        await server.wait_closed()


async def test_frames_go_one_after_the_other_over_one_connection() -> None:
    """Each is posted as it is, and its answer is given back however it is cut."""
    async with carried() as (owner, carrier):
        owner.answers = [[ANSWER], [ANSWER[:9], ANSWER[9:-2], ANSWER[-2:]]]
        answers = [await carrier.carry(b"one"), await carrier.carry(b"three")]

        assert (answers, owner.connections) == ([b"reply", b"reply"], 1)
        assert [each.rpartition(b"\r\n\r\n")[2] for each in owner.requests] == [b"one", b"three"]
        assert b"host: " + owner.url.removeprefix("http://").encode() in owner.requests[0]


async def test_frames_at_once_have_a_connection_each_and_keep_it() -> None:
    """None waits for another's answer."""
    async with carried() as (owner, carrier):
        owner.answers = [[ANSWER] for _ in range(6)]
        for _ in range(2):
            await asyncio.gather(*(carrier.carry(b"frame") for _ in range(3)))

        assert owner.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        [b""],
        [ANSWER[:-1], b""],
        [b"nonsense\r\n\r\n"],
        [b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"],
    ],
    ids=["none", "a part", "no HTTP", "a refusal"],
)
async def test_a_frame_without_an_answer_that_counts_is_told(answer: list[bytes]) -> None:
    """And the next one is carried."""
    async with carried() as (owner, carrier):
        owner.answers = [answer, [ANSWER]]
        with pytest.raises(Undelivered):
            await carrier.carry(b"frame")

        assert await carrier.carry(b"frame") == b"reply"


async def test_an_owner_that_is_silent_is_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the connection is given up: an answer that comes late is nobody's."""
    monkeypatch.setattr(carrier, "ANSWER_S", 0.1)
    async with carried() as (owner, made):
        owner.answers = [[], [ANSWER]]
        with pytest.raises(Undelivered, match="Timeout"):
            await made.carry(b"frame")

        assert (await made.carry(b"frame"), owner.connections) == (b"reply", 2)


async def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    """The owner closes those that stay idle."""
    async with carried() as (owner, carrier):
        owner.answers, owner.hangs_up_after = [[ANSWER], [ANSWER]], True
        await carrier.carry(b"frame")
        await asyncio.sleep(0.05)

        assert (await carrier.carry(b"frame"), owner.connections) == (b"reply", 2)


async def test_a_carrier_that_is_given_up_hangs_up() -> None:
    """Its frame is under way, and the owner finds the connection closed."""
    async with carried() as (owner, carrier):
        owner.answers = [[]]
        carrying = asyncio.create_task(carrier.carry(b"frame"))
        while not owner.requests:  # noqa: ASYNC110 - played by bytes, there is no event
            await asyncio.sleep(0.01)
        carrying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await carrying

        assert carrier._idle == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://["])
async def test_nobody_there_is_told(url: str) -> None:
    """Also where the URL is none."""
    with pytest.raises(Undelivered):
        await Carrier(url).carry(b"frame")
