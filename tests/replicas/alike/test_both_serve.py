"""Two replicas that serve all streams between them, and their clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from reader_client import ReaderClient
from tests.replicas.served import HTTP, Two, note
from writer_client import WriterClient

if TYPE_CHECKING:
    from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


def test_no_proxy_stands_between_replicas(other: ServeProcess, name: str) -> None:
    """Whatever their environment says of proxies: that is for calls that leave the site."""
    path = f"{other.url}/v1/streams/{name}/explain"

    assert (note(other, name, 5), HTTP.get(path).status_code) == (200, 200)


@pytest.mark.parametrize("noting", ["owner", "other"])
def test_a_poll_at_the_other_is_woken_by_a_note(
    owner: ServeProcess, other: ServeProcess, name: str, noting: str
) -> None:
    """Whoever took it; the poll is answered with the mark long before its time is over."""
    chosen = owner if noting == "owner" else other

    async def poll() -> httpx.Response:
        async with httpx.AsyncClient(timeout=40) as client:
            url, query = f"{other.url}/v1/streams/{name}/marks", {"wait_ms": 30_000}
            waiting = asyncio.create_task(client.get(url, params=query))
            await asyncio.sleep(0.3)
            begun = asyncio.get_running_loop().time()
            assert await asyncio.to_thread(note, chosen, name, 5) == 200
            answer = await waiting
            assert asyncio.get_running_loop().time() - begun < 15
            return answer

    marks = asyncio.run(poll()).json()["marks"]

    assert [(mark["seq"], mark["lower"]) for mark in marks] == [(1, 5)]


def test_clients_need_not_know_who_has_a_stream(other: ServeProcess, name: str) -> None:
    """A writer and a reader that know the other one only: notes are durable, windows exact."""
    with WriterClient(other.url, name, "w") as writer:
        writer.join()
        for noted in range(1, 6):
            writer.note_time(noted, {0: 10 * noted})
        writer.flush()
        with ReaderClient(other.url, name) as reader:
            reader.catch_up(timeout=20)
            lower = reader.window_at({0: 50}).lower

    assert lower == 5


def test_two_that_start_at_once_on_an_empty_database_both_serve(two: Two) -> None:
    """One makes the tables, both are ready."""
    assert [HTTP.get(f"{each.url}/readyz").status_code for each in two] == [200, 200]
