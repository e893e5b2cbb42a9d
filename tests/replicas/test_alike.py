"""Two replicas give the same answers."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.replicas.replica_processes import (
    Two,
    find_owned_name,
    note_time,
    owns,
    read_lowers,
    wait_until_shared,
)
from tests.support.page import Runner, steady
from tests.support.processes import ServeProcess
from tools.trials.calls import HTTP
from tools.trials.postgres import Server
from tools.trials.waiting import PATIENCE_S, wait_until

PROXIES: dict[str, Any] = {
    **dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:1"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
}
"""Variables of the replicas that name a proxy which does not exist."""


@pytest.fixture(scope="module")
def two(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two replicas that started at once on a database without tables.

    One makes the tables, and both serve. They ignore the proxy of their environment.
    """
    url = server.make_database()
    directory = tmp_path_factory.mktemp("two")
    with (
        ServeProcess(directory, "--database", url, **PROXIES) as a,
        ServeProcess(directory, "--database", url, **PROXIES) as b,
    ):
        for replica in (a, b):
            replica.ready()
        wait_until_shared(a, b)
        yield Two(a, b)


@pytest.fixture
def name(two: Two, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a stream of `a` that marks every advance, removed afterwards."""
    owned_name = find_owned_name(two.a, re.sub(r"\W", "-", request.node.name)[:100])
    two.a.create(owned_name)
    yield owned_name
    HTTP.delete(f"{two.a.url}/v1/streams/{owned_name}")


pytestmark = pytest.mark.acceptance


def test_examples_of_api_page_run(two: Two, tmp_path: Path) -> None:
    """The replica that does not own the stream answers them as shown."""
    other = two.b if owns(two.a, "flights") else two.a
    answers = Runner(tmp_path, other.url).run_page("docs/reference/api.md")
    HTTP.delete(f"{other.url}/v1/streams/flights").raise_for_status()

    assert answers


def test_both_replicas_show_accepted_notes(two: Two, name: str) -> None:
    """The answers of both are equal."""
    for time, told_to, asked_replica in ((5, two.a, two.b), (7, two.b, two.a), (9, two.b, two.b)):
        note_time(told_to, name, time)
        wait_until(lambda: read_lowers(asked_replica, name)[-1][1] == time)  # noqa: B023 - at once

    for path in ("", "/marks", "/cut?complete_to=6", "/explain", "/writers"):
        answer_of_a = HTTP.get(f"{two.a.url}/v1/streams/{name}{path}")
        answer_of_b = HTTP.get(f"{two.b.url}/v1/streams/{name}{path}")
        assert steady(answer_of_a.text) == steady(answer_of_b.text)
    path = f"/streams/{name}/completeness"
    assert two.a.ask("POST", path, {"to": 6}).text == two.b.ask("POST", path, {"to": 6}).text
    assert read_lowers(two.b, name) == [(1, 5), (2, 7), (3, 9)]


def test_writer_reads_its_mark_at_once_from_another_replica(two: Two, name: str) -> None:
    with httpx.Client(base_url=f"{two.b.url}/v1/streams/{name}") as client:
        lowers = []
        for time in range(1, 41):
            client.post("/notes", json={"notes": [{"writer": "w", "time": time}]})
            marks = client.get("/marks", params={"after": time - 1}).json()["marks"]
            lowers += [mark["lower"] for mark in marks]

    assert lowers == list(range(1, 41))


@pytest.mark.parametrize("noting", ["a", "b"])
def test_note_wakes_poll_at_other_replica(two: Two, name: str, noting: str) -> None:
    """Either replica may accept the note; the poll is answered long before its end."""
    noting_replica: ServeProcess = getattr(two, noting)

    async def poll() -> httpx.Response:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            url = f"{two.b.url}/v1/streams/{name}/marks"
            query = {"wait_ms": 30_000}
            waiting = asyncio.create_task(client.get(url, params=query))
            await asyncio.sleep(0.3)
            begin_s = asyncio.get_running_loop().time()
            assert await asyncio.to_thread(note_time, noting_replica, name, 5) == 200
            answer = await waiting
            assert asyncio.get_running_loop().time() - begin_s < 15
            return answer

    marks = asyncio.run(poll()).json()["marks"]

    assert [(mark["seq"], mark["lower"]) for mark in marks] == [(1, 5)]
