"""Answers with marks or windows stay small, even with many segments."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
import pytest

from controller.api.wire import encoding
from controller.service import long_reads
from noted_time import Mark
from noted_time.reading import MarkHistory
from reader_client import ReaderClient
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.released import Released
from tests.support.controllers import wait_until_async
from tests.support.http import Caller
from tools.trials.served import Served
from tools.trials.waiting import eventually

S = "/v1/streams/s"
SEGMENTS = 60
MARKS = 40
LARGEST = 4_000
"""Instead of 4 MiB: about six marks of that many segments."""

ABOUT = 500
"""The size of an answer without its list."""


def make_wide_note(time: int) -> dict[str, Any]:
    position = {str(segment): time for segment in range(SEGMENTS)}
    return {"writer": "a", "time": time, "max_time": time, "position": position}


WIDE = [make_wide_note(seq) for seq in range(1, MARKS + 1)]


@pytest.fixture(autouse=True)
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers end early."""
    monkeypatch.setattr(encoding, "ANSWER_BYTES", LARGEST)


async def test_marks_continue_in_the_next_answer(call: Caller) -> None:
    """Each mark is sent once; only the last answer has no more."""
    await call.note(*WIDE)
    answers = [await call.get(f"{S}/marks", limit=1000)]
    while answers[-1].json()["has_more"]:
        last = answers[-1].json()["marks"][-1]["seq"]
        answers.append(await call.get(f"{S}/marks", limit=1000, after=last))

    seqs = []
    for answer in answers:
        assert len(answer.content) < LARGEST + ABOUT
        seqs += [mark["seq"] for mark in answer.json()["marks"]]
    assert seqs == list(range(1, MARKS + 1))
    assert len(answers) > 3


async def test_large_item_is_sent_alone(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no reader could continue after it."""
    monkeypatch.setattr(encoding, "ANSWER_BYTES", 1)
    await call.note(*WIDE[:2])
    answer = (await call.get(f"{S}/marks")).json()

    assert ([mark["seq"] for mark in answer["marks"]], answer["has_more"]) == ([1], True)


@pytest.mark.parametrize(
    ("path", "query"), [("marks", {}), ("windows", {"size_ms": 1, "after": 1, "limit": 1000})]
)
async def test_event_loop_runs_while_an_answer_is_encoded(
    call: Caller, monkeypatch: pytest.MonkeyPatch, path: str, query: dict[str, int]
) -> None:
    """It runs after every slice, here after every item."""
    monkeypatch.setattr(encoding, "ANSWER_BYTES", 1_000_000)
    monkeypatch.setattr(long_reads, "SLICE_S", 0)
    await call.note(*WIDE)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await call.get(f"{S}/{path}", **query)
    beside.cancel()

    assert turns >= MARKS - 1


async def test_polls_share_one_encoded_mark(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """All polls get the same answer, without a copy of the mark."""
    built_seqs: list[int] = []
    mark = MarkHistory.mark

    def count_calls(history: MarkHistory, seq: int) -> Mark:
        built_seqs.append(seq)
        return mark(history, seq)

    monkeypatch.setattr(MarkHistory, "mark", count_calls)
    polls = [asyncio.create_task(call.get(f"{S}/marks", wait_ms=30_000)) for _ in range(20)]
    await wait_until_async(lambda: len(call.controller.polls) == len(polls))
    await call.note({"writer": "a", "time": 5, "position": {"0": 10}})
    answers = {(await poll).text for poll in polls}

    assert (built_seqs, len(answers)) == ([1], 1)


@pytest.fixture
def wide_stream() -> Iterator[Served]:
    """Return a controller with the stream `s`, whose marks are wide."""
    with Served() as wide_stream:
        wide_stream.create("s")
        httpx.post(f"{wide_stream.url}{S}/notes", json={"notes": WIDE}, trust_env=False)
        yield wide_stream


def test_clients_continue_where_an_answer_ended(wide_stream: Served) -> None:
    """The reader, and the feed of Spark's sources."""
    with ReaderClient("s", controller=wide_stream.url) as reader:
        followed_seqs = [mark.seq for mark in islice(reader.marks(wait=30), MARKS)]
    feed = ControllerFeed(wide_stream.url, "s", None)
    feed.begin(Released())
    fed: list[int] = []

    def count() -> int:
        fed.extend(mark.seq for mark in feed.take().marks)
        return len(fed)

    eventually(count, MARKS)
    feed.close()

    assert followed_seqs == fed == list(range(1, MARKS + 1))
