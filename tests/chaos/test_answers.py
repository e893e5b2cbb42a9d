"""What callers and administrators make of answers, from replicas that are made up."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.chaos import administering
from tests.chaos.administering import Administering
from tests.chaos.calls import Caller
from tests.chaos.history import History, Journal
from tests.chaos.reading import Reading
from tests.chaos.scaling import ScaledStream
from tests.chaos.writing import Writing

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


async def finished(result: dict[str, Any], tmp_path: Path, seen: int | None = None) -> list[str]:
    """Have a live writer note once and get that answer; return the laws that broke."""
    history, written = stream()
    written.writer(random.Random(1)).state = "live"
    history.chains["s", "default"].lower = seen
    client = caller(lambda _: httpx.Response(200, json={"results": [result]}), history)
    with Journal(tmp_path) as journal:
        await Writing(history, journal, asyncio.Event()).finish(client, written, 5)
    return [violation.law for violation in history.violations]


async def test_a_note_in_order_that_is_refused_is_reported(tmp_path: Path) -> None:
    """A writer that keeps its promise is always accepted."""
    assert await finished({"status": "invalid_time", "last": 9}, tmp_path) == ["answers"]


async def test_an_old_lower_in_an_answer_is_reported(tmp_path: Path) -> None:
    """Joining writers rely on it."""
    result = {"status": "accepted", "lower": 3}

    assert (await finished(result, tmp_path, seen=4), await finished(result, tmp_path, seen=3)) == (
        ["lowers"],
        [],
    )


async def test_a_reader_that_misses_a_mark_is_reported() -> None:
    """Marks come gapless and in order."""
    history, _ = stream()
    stopping = asyncio.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        stopping.set()
        mark = {"seq": 2, "lower": 5, "upper": 5, "cut": {}, "excluded": []}
        return httpx.Response(200, json={"marks": [mark]})

    await Reading(history, stopping).follow(caller(answer, history), "s", "default")

    assert [violation.law for violation in history.violations] == ["chains"]


async def administered(
    do: str, stream: ScaledStream, history: History, answers: list[Any]
) -> list[str]:
    """Have an administrator do that once, and be answered so; returns the laws that broke."""
    stopping, left = asyncio.Event(), iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        stopping.set()
        return httpx.Response(200, json=next(left))

    work = getattr(Administering(history, stopping), do)
    async with asyncio.timeout(30):
        await work(caller(answer, history), stream, random.Random(1))
    return [violation.law for violation in history.violations]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait before anything is done."""
    for name in ("SCALES_S", "TELLS_S", "TRUNCATES_S"):
        monkeypatch.setattr(administering, name, (0.0, 0.0))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("result", "laws"),
    [
        ({"status": "invalid_position", "last": {"0": 1}}, []),
        ({"status": "accepted", "lower": None}, ["scalings last"]),
        ({"status": "invalid_position", "last": {"0": 2}}, ["scalings last"]),
    ],
)
async def test_a_note_beyond_what_was_sealed_has_to_be_refused(
    result: dict[str, Any], laws: list[str]
) -> None:
    """By the end that was given."""
    stream = ScaledStream("s", shared=False)
    writer = stream.writer(random.Random(1))
    writer.acknowledged_position[0] = stream.append(0, {"default": 5}).offset + 1
    history = History({"s": stream})
    answers = [{"marks": {"default": {"seq": 7}}}, {"results": [result]}]

    assert await administered("scale", stream, history, answers) == laws
    assert history.chains["s", "default"].scaled_at == [7]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("last", "laws"), [({"seq": 3}, []), (None, ["marks begin"])])
async def test_a_truncation_has_to_leave_the_last_mark(last: object, laws: list[str]) -> None:
    """And leaves what readers at the cut need."""
    history, truncated = stream()
    history.reported["s"] = {0: 2}
    chain = history.chains["s", "default"]
    chain.followers = [3, 3]
    chain.seen |= {seq: {"seq": seq, "lower": 10 * seq, "cut": {"0": seq}} for seq in (1, 2, 3)}
    answers = [{"marks": {"default": last}}]

    assert await administered("truncate", truncated, history, answers) == laws
    assert chain.first_heard == 2
