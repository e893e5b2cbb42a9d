"""What callers make of answers, from replicas that are made up."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.chaos import calls
from tests.chaos.calls import Caller, NobodyAnswersError
from tests.chaos.history import History
from tests.chaos.journal import Journal
from tests.chaos.reading import Reading
from tests.chaos.writing import Writing
from tests.support.load import LoadedStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

URLS = ["http://a", "http://b"]
ACCEPTED = {"results": [{"status": "accepted", "lower": None}]}


def caller(answer: Callable[[httpx.Request], httpx.Response], history: History) -> Caller:
    """A caller of two replicas that answer so."""
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return Caller(http, URLS, history, random.Random(1))


def stream() -> tuple[History, LoadedStream]:
    """A history of one stream, in which nothing has happened."""
    made = LoadedStream("s")
    return History({"s": made}), made


async def test_a_caller_goes_on_to_the_next_replica_until_one_answers() -> None:
    """Whether nobody is there, it stands by, or the answer is lost."""
    history, _ = stream()
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if len(asked) == 1:
            raise httpx.ConnectError("away")
        standby = httpx.Response(503, json={"code": "standby"})
        return standby if len(asked) == 2 else httpx.Response(200, json={"fine": True})

    client = caller(answer, history)
    body = await client.call("GET", "/x")

    assert (body, history.violations) == ({"fine": True}, [])
    assert [each.what for each in client.tries] == ["ConnectError", "503 standby"]
    assert asked[0] != asked[1] != asked[2]


@pytest.mark.parametrize("status", [404, 422, 500])
async def test_an_answer_that_the_api_never_gives_is_told(status: int) -> None:
    """Of a stream that is there, asked as it should be."""
    history, _ = stream()
    answers = iter([httpx.Response(status, text="?"), httpx.Response(200, json={})])
    await caller(lambda _: next(answers), history).call("GET", "/x")

    assert [violation.law for violation in history.violations] == ["answers"]


async def test_nobody_who_answers_for_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller does not wait for ever."""
    history, _ = stream()
    monkeypatch.setattr(calls, "PATIENCE_S", 0.2)

    with pytest.raises(NobodyAnswersError):
        await caller(lambda _: httpx.Response(503, text=""), history).call("GET", "/x")


async def finished(told: dict[str, Any], tmp_path: Path, seen: int | None = None) -> list[str]:
    """Have a live writer note once and be told that; returns the laws that broke."""
    history, written = stream()
    written.writer(random.Random(1)).state = "live"
    history.chains["s", "default"].lower = seen
    client = caller(lambda _: httpx.Response(200, json={"results": [told]}), history)
    with Journal(tmp_path) as journal:
        await Writing(history, journal, asyncio.Event()).finish(client, written, 5)
    return [violation.law for violation in history.violations]


async def test_a_note_in_order_that_is_refused_is_told(tmp_path: Path) -> None:
    """A writer that keeps its promise is always accepted."""
    assert await finished({"status": "invalid_time", "last": 9}, tmp_path) == ["answers"]


async def test_a_writer_that_is_told_an_old_lower_is_told(tmp_path: Path) -> None:
    """Whoever joins relies on it."""
    told = {"status": "accepted", "lower": 3}

    assert (await finished(told, tmp_path, seen=4), await finished(told, tmp_path, seen=3)) == (
        ["lowers"],
        [],
    )


async def test_a_reader_that_misses_a_mark_is_told() -> None:
    """Marks come gapless and in order."""
    history, _ = stream()
    stopping = asyncio.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        stopping.set()
        mark = {"seq": 2, "lower": 5, "upper": 5, "cut": {}, "left_out": []}
        return httpx.Response(200, json={"marks": [mark]})

    await Reading(history, stopping).follow(caller(answer, history), "s", "default")

    assert [violation.law for violation in history.violations] == ["chains"]
