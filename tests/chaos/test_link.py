"""What a link between two programs does when it is told to fail."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.chaos.link import Link

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.link import Mode

    Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

pytestmark = pytest.mark.anyio

SOON_S = 0.3


@asynccontextmanager
async def through(mode: Mode) -> AsyncIterator[tuple[Link, Ends, list[bytes]]]:
    """A connection to a program that echoes, over a link that then fails; and what that heard."""
    heard: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.append(data)
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    link = Link(server.sockets[0].getsockname()[1])
    await link.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    link.turn(mode)
    yield link, (reader, writer), heard
    writer.close()
    await link.close()
    server.close()
    await server.wait_closed()


async def answer(ends: Ends, said: bytes) -> bytes | None:
    """Say something; returns what comes back, nothing at the end, `None` where nothing comes."""
    ends[1].write(said)
    return await heard_from(ends)


async def heard_from(ends: Ends) -> bytes | None:
    """Return what comes."""
    try:
        return await asyncio.wait_for(ends[0].read(100), SOON_S)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


async def test_a_cut_link_ends_what_is_open_and_what_is_new() -> None:
    """And a mended one takes new connections."""
    async with through("cut") as (link, ends, heard):
        ended = await answer(ends, b"x")
        new = await asyncio.open_connection("127.0.0.1", link.port)
        refused = await answer(new, b"x")
        link.turn("whole")
        again = await asyncio.open_connection("127.0.0.1", link.port)

        assert (ended, refused, await answer(again, b"after")) == (b"", b"", b"after")
        assert heard == [b"before", b"after"]
        for each in (new, again):
            each[1].close()


async def test_a_half_open_link_swallows_and_then_ends() -> None:
    """Who speaks meanwhile hears nothing, not even an end, and is never heard."""
    async with through("swallowing") as (link, ends, heard):
        silence = await answer(ends, b"x")
        link.turn("whole")

        assert (silence, await heard_from(ends), heard) == (None, b"", [b"before"])


async def test_a_stalled_link_passes_on_later_what_was_said() -> None:
    """So an order that was given up long ago may still arrive."""
    async with through("stalled") as (link, ends, heard):
        silence = await answer(ends, b"late")
        link.turn("whole")

        assert (silence, await heard_from(ends), heard) == (None, b"late", [b"before", b"late"])


async def test_a_mute_link_loses_the_answer_of_what_was_done() -> None:
    """The other side has heard it; the caller cannot know."""
    async with through("mute") as (link, ends, heard):
        lost = await answer(ends, b"do")

        assert (lost, heard, link.lost_answers) == (b"", [b"before", b"do"], 1)


async def test_a_link_without_a_target_refuses() -> None:
    """As a machine does whose process was killed."""
    link = Link()
    await link.open()
    ends = await asyncio.open_connection("127.0.0.1", link.port)

    assert await answer(ends, b"x") == b""
    ends[1].close()
    await link.close()
