"""One wrong offset stops all readers; an operator puts it right, and they read on."""

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest

from reader_client import ReaderClient
from spark_integration.marks_feed import ControllerFeed
from spark_integration.offsets import Released
from spark_integration.release import Releaser
from tests.support.controllers import until
from tests.support.http import Caller, problem
from tests.support.served import Served
from tests.support.waiting import eventually

S = "/v1/streams/s"
POSITION = f"{S}/writers/a/position"
GROUP = f"{S}/reader-groups/g/readers/r"
WRONG = 10**9
RIGHT: dict[str, Any] = {"position": {"0": 20}, "above": {"0": 1000}}
NOTES = [
    {"writer": "a", "time": 5, "position": {"0": 10}},
    {"writer": "a", "time": 6, "position": {"0": WRONG}},
    {"writer": "a", "time": 7, "position": {"0": WRONG + 1}},
]


async def cuts(call: Caller) -> list[dict[str, int]]:
    """Return the cuts of the marks as they are read now."""
    return [mark["cut"] for mark in (await call.get(f"{S}/marks")).json()["marks"]]


async def test_a_dry_run_names_what_would_be_replaced(call: Caller) -> None:
    """Each wrong offset, with the marks that have it; nothing changes."""
    await call.note(*NOTES)
    answer = await call.post(POSITION, RIGHT | {"dry_run": True})

    assert answer.json() == {
        "dry_run": True,
        "cuts": {"0": 20},
        "replaced": [
            {"domain": "default", "segment": 0, "offset": offset, "first_seq": seq, "last_seq": seq}
            for offset, seq in ((WRONG, 2), (WRONG + 1, 3))
        ],
    }
    assert await cuts(call) == [{"0": 10}, {"0": WRONG}, {"0": WRONG + 1}]


async def test_marks_windows_and_the_writer_are_put_right(call: Caller) -> None:
    """Lowers and numbers stay; a reader of all has a lower again, and later cuts are right."""
    await call.note(*NOTES)
    stuck = (await call.post(f"{S}/time-window", {"position": {"0": 20}})).json()
    await call.post(POSITION, RIGHT)
    await call.note({"writer": "a", "time": 8, "position": {"0": 25}})
    freed = (await call.post(f"{S}/time-window", {"position": {"0": 20}})).json()
    marks = (await call.get(f"{S}/marks")).json()

    assert (stuck["lower"], freed["lower"]) == (5, 7)
    assert [(mark["seq"], mark["lower"], mark["cut"]) for mark in marks["marks"]] == [
        (1, 5, {"0": 10}),
        (2, 6, {"0": 20}),
        (3, 7, {"0": 20}),
        (4, 8, {"0": 25}),
    ]
    assert marks["corrections"] == 1


async def test_what_readers_have_reached_is_not_wrong(call: Caller) -> None:
    """Then windows would go back."""
    await call.note(*NOTES)
    await call.put(GROUP, {"position": {"0": 1000}})
    refused = await call.post(POSITION, RIGHT)

    assert problem(refused)[:2] == (409, "known_beyond")
    assert refused.json()["known"] == {"0": 1000}
    assert (await cuts(call))[-1] == {"0": WRONG + 1}


async def test_it_is_recorded_with_its_reason(call: Caller) -> None:
    """With its author, the old position, and the new one."""
    await call.note(*NOTES)
    await call.post(POSITION, RIGHT | {"comment": "bytes, not rows"})
    (change, *_) = (await call.get(f"{S}/changes")).json()["changes"]

    assert {name: change[name] for name in ("action", "writer", "was", "is", "comment")} == {
        "action": "corrected",
        "writer": "a",
        "was": {"position": {"0": WRONG + 1}},
        "is": {"position": {"0": 20}, "above": {"0": 1000}, "cuts": {"0": 20}},
        "comment": "bytes, not rows",
    }


async def test_the_next_entry_of_the_ledger_names_it(call: Caller) -> None:
    """In each domain, once; no writer is missing because of it."""
    await call.note(*NOTES)
    await call.post(POSITION, RIGHT)
    await call.note(
        {"writer": "a", "time": 8, "position": {"0": 25}},
        {"writer": "a", "time": 9, "position": {"0": 26}},
    )
    (entry,) = (await call.get(f"{S}/ledger")).json()["entries"]
    cut = (await call.get(f"{S}/cut", complete_to=8)).json()

    assert (entry["seq"], entry["by"]) == (4, "127.0.0.1")
    assert entry["writers"] == [
        {
            "writer": "a",
            "time": None,
            "position": {"0": 20},
            "reason": "corrected",
            "late": None,
            "since": None,
            "missing_from": None,
        }
    ]
    assert cut["missing"] == []


async def test_a_correction_ends_long_polls(call: Caller) -> None:
    """A caller that waits for the next mark has the others read again."""
    await call.note(*NOTES)
    poll = asyncio.create_task(call.get(f"{S}/marks", after=3, wait_ms=30_000))
    await until(lambda: len(call.controller.polls) == 1)
    await call.post(POSITION, RIGHT)
    answer = (await poll).json()

    assert (answer["marks"], answer["corrections"]) == ([], 1)


class Corrected(Served):
    """A controller with the stream `s`, whose last two marks no reader can reach."""

    def correct(self) -> None:
        """Put them right."""
        httpx.post(f"{self.url}{POSITION}", json=RIGHT, trust_env=False).raise_for_status()


@pytest.fixture
def served() -> Iterator[Corrected]:
    """Return such a controller."""
    with Corrected() as served:
        served.create("s")
        httpx.post(f"{served.url}{S}/notes", json={"notes": NOTES}, trust_env=False)
        yield served


def test_a_correction_is_known_after_a_restart(served: Corrected) -> None:
    """And later marks may rightly go beyond what was wrong once."""
    served.correct()
    served.call(
        "POST", "/s/notes", {"notes": [{"writer": "a", "time": 8, "position": {"0": 5000}}]}
    )
    before = served.call("GET", "/s/marks")
    served.stop()
    served.start()

    assert served.call("GET", "/s/marks") == before
    assert [mark["cut"]["0"] for mark in before["marks"]] == [10, 20, 20, 5000]
    (listed,) = served.call("GET", "")["streams"]
    assert (listed["corrections"], listed["marks"]["default"]) == (1, before["marks"][-1])


def test_the_ledger_names_a_correction_after_a_restart(served: Corrected) -> None:
    """The first mark after it may be of another process."""
    served.correct()
    served.stop()
    served.start()
    served.call("POST", "/s/notes", {"notes": [{"writer": "a", "time": 8, "position": {"0": 25}}]})
    (entry,) = served.call("GET", "/s/ledger")["entries"]
    before = served.call("GET", "/s/cut?complete_to=8")
    served.stop()
    served.start()

    assert (entry["seq"], [each["reason"] for each in entry["writers"]]) == (4, ["corrected"])
    assert served.call("GET", "/s/cut?complete_to=8") == before
    assert before["missing"] == []


def test_a_reader_reads_on(served: Corrected) -> None:
    """Its window continues, and never goes back."""
    with ReaderClient(served.url, "s", wait_ms=200) as reader:
        reader.catch_up(30)
        reader.advance({0: 20})
        seen: list[int | None] = []

        def lower() -> int | None:
            seen.append(reader.get_time_window().lower)
            return seen[-1]

        eventually(lower, 5)
        served.correct()
        eventually(lower, 7)

    assert [each for each, _ in groupby(seen)] == [5, 7]


def test_a_query_of_spark_reads_on(served: Corrected) -> None:
    """Marks that were not admitted are read again."""
    releaser = Releaser(ControllerFeed(served.url, "s", None, wait_ms=200))

    def released() -> int | None:
        releaser.follow(Released())
        return releaser.release(Released(), {0: 20}).lower

    eventually(released, 5)
    served.correct()
    eventually(released, 7)
    releaser.close()
