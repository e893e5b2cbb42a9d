"""Times in seconds in a stream of milliseconds: refused, whichever call they come by."""

import asyncio

import pytest

from tests.support.controllers import until
from tests.support.http import Caller, problem

S = "/v1/streams/s"
NOW = 1_700_000_000_000
SECONDS = 1_700_000_000
ASKS = {"cut": {"complete_to": SECONDS}, "windows": {"after": SECONDS}}
reads = pytest.mark.parametrize("path", ASKS)


@reads
async def test_a_time_in_seconds_is_refused(call: Caller, path: str) -> None:
    """As milliseconds it lies in January 1970, so it would be complete at once and for ever."""
    await call.note({"writer": "a", "time": NOW})
    answer = await call.get(f"{S}/{path}", **ASKS[path])

    assert problem(answer) == (
        422,
        "implausible_time",
        (
            "is 1700000000 in seconds? The times of the stream are in milliseconds, "
            "so ask for 1700000000000; the lower is 2023-11-14T22:13:20Z"
        ),
    )
    assert (answer.json()["time"], answer.json()["lower"]) == (SECONDS, NOW)


@reads
async def test_a_poll_is_refused_once_the_lower_shows_the_unit(call: Caller, path: str) -> None:
    """It is judged when it is answered: it began before there was any mark."""
    poll = asyncio.create_task(call.get(f"{S}/{path}", **ASKS[path], wait_ms=30_000))
    await until(lambda: len(call.controller._notifier) == 1)
    await call.note({"writer": "a", "time": NOW})

    assert problem(await poll)[:2] == (422, "implausible_time")


@reads
async def test_times_of_another_clock_are_taken_as_they_are(call: Caller, path: str) -> None:
    """A stream whose times are not Unix milliseconds declares it by `max_time_ahead_ms: null`."""
    await call.put(S, {"max_time_ahead_ms": None})
    await call.note({"writer": "a", "time": NOW})
    answer = await call.get(f"{S}/{path}", **ASKS[path])

    assert answer.status_code == 200


async def test_the_ends_of_a_page_are_never_refused(call: Caller) -> None:
    """A stream that began in 1972 has windows after times that could be seconds."""
    await call.note({"writer": "a", "time": 60_000_000_000})
    await call.note({"writer": "a", "time": NOW})
    first = (await call.get(f"{S}/windows", limit=1)).json()
    second = await call.get(f"{S}/windows", limit=1, after=first["next"])

    assert (second.status_code, second.json()["windows"][0]["start"]) == (200, first["next"])


async def test_who_notes_seconds_is_named(call: Caller) -> None:
    """Its notes are accepted, and its time holds; so explain asks whether it is meant."""
    await call.note({"writer": "berlin", "time": SECONDS, "position": {"0": 1}})
    await call.note({"writer": "lima", "time": NOW, "position": {"1": 1}})
    found = (await call.get(f"{S}/explain")).json()["hints"]
    await call.put(S, {"max_time_ahead_ms": None})
    none = (await call.get(f"{S}/explain")).json()["hints"]

    detail = "noted 1700000000, which is January 1970: are these seconds?"
    assert (found, none) == ([{"writer": "berlin", "hint": "seconds", "detail": detail}], [])


async def test_who_notes_times_without_a_position_is_named(call: Caller) -> None:
    """Time alone is legal; but its marks cover no row, and a join has no time to doubt."""
    await call.note({"writer": "berlin", "time": NOW}, {"writer": "lima"})
    found = (await call.get(f"{S}/explain")).json()["hints"]
    await call.note({"writer": "berlin", "position": {"0": 0}})
    none = (await call.get(f"{S}/explain")).json()["hints"]

    detail = "never named a position: no cut covers what it writes."
    assert (found, none) == ([{"writer": "berlin", "hint": "no_position", "detail": detail}], [])


async def test_a_cut_shows_whether_it_has_a_position(call: Caller) -> None:
    """An empty cut is complete at once, and a reader up to it has read nothing."""
    await call.note({"writer": "a", "time": NOW})
    without = (await call.get(f"{S}/cut", complete_to=NOW)).json()
    await call.note({"writer": "a", "time": NOW + 1, "position": {"0": 1}})
    behind = (await call.get(f"{S}/cut", complete_to=NOW + 1)).json()

    assert [(each["cut"], each["has_position"]) for each in (without, behind)] == [
        ({}, False),
        ({"0": 1}, True),
    ]
