"""What callers and administrators make of answers, from replicas that are made up."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.chaos.calls import Caller
from tests.chaos.history import History, Journal
from tests.chaos.reading import Reading
from tests.chaos.scaling import ScaledStream
from tests.chaos.writing import Writing
from tests.support.following import broken

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


def stream() -> tuple[History, ScaledStream]:
    """A history of one stream, in which nothing has happened."""
    made = ScaledStream("s")
    return History({"s": made}), made


@pytest.mark.parametrize("status", [404, 422, 500])
async def test_an_answer_that_the_api_never_gives_is_reported(status: int) -> None:
    """Of a stream that is there, asked as it should be."""
    history, _ = stream()
    answers = iter([httpx.Response(status, text="?"), httpx.Response(200, json={})])
    await caller(lambda _: next(answers), history).call("GET", "/x")

    assert [violation.law for violation in history.violations] == ["answers"]


async def finished(result: dict[str, Any], tmp_path: Path) -> list[str]:
    """Have a live writer note once and get that answer; return the laws that broke."""
    history, written = stream()
    written.writer(random.Random(1)).state = "live"
    client = caller(lambda _: httpx.Response(200, json={"results": [result]}), history)
    with Journal(tmp_path) as journal:
        await Writing(history, journal, asyncio.Event()).finish(client, written, 5)
    return [violation.law for violation in history.violations]


async def test_a_note_in_order_that_is_refused_is_reported(tmp_path: Path) -> None:
    """A writer that keeps its promise is always accepted."""
    assert await finished({"status": "invalid_time", "last": 9}, tmp_path) == ["answers"]


async def test_a_reader_that_misses_a_mark_is_reported() -> None:
    """Marks come gapless and in order."""
    history, _ = stream()
    stopping = asyncio.Event()
    mark = {"seq": 2, "lower": 5, "upper": 5, "cut": {}, "excluded": []}

    def answer(_: httpx.Request) -> httpx.Response:
        stopping.set()
        return httpx.Response(200, json={"marks": [mark]})

    await Reading(history, stopping).follow(caller(answer, history), "s", "default")

    answers = history.chains["s", "default"].answers
    assert broken(answers) == [f"resumable: after 0 came {mark}"]
