"""The operator's hand over HTTP: remove a writer, hold one, ask what if, read the ledger."""

from typing import Any

import pytest

from tests.support.controllers import GivenTime, serve_for, until
from tests.support.http import Caller, problem

S = "/v1/streams/s"
WALL = 1_700_000_000_000


async def last_lower(call: Caller) -> int | None:
    """Return the lower of the stream's last mark."""
    mark = (await call.get(S)).json()["marks"]["default"]
    lower: int | None = mark and mark["lower"]
    return lower


async def test_a_removed_writer_is_excluded_at_once(call: Caller) -> None:
    """The watermark advances; mark, writer and ledger have writer, reason and author."""
    await call.note({"writer": "slow", "time": 5, "position": {"0": 3}}, {"writer": "a", "time": 9})
    answer = await call.client.delete(f"{S}/writers/slow")
    ledger = (await call.get(f"{S}/ledger")).json()
    marks = (await call.get(f"{S}/marks", after=1)).json()["marks"]

    row = answer.json()
    exclusion = {"reason": "removed", "since": WALL}
    assert (answer.status_code, row["state"], row["excluded"]) == (200, "excluded", exclusion)
    assert [(mark["lower"], mark["cut"], mark["excluded"]) for mark in marks] == [
        (9, {"0": 3}, ["slow"])
    ]
    absence = {
        "writer": "slow",
        "time": 5,
        "position": {"0": 3},
        "reason": "removed",
        "late": None,
        "since": WALL,
        "missing_from": 5,
    }
    by = ledger["entries"][0]["by"]
    assert ledger == {
        "entries": [
            {
                "seq": 2,
                "at": WALL,
                "from": 5,
                "to": 9,
                "writers": [absence],
                "by": by,
                "returned": [],
            }
        ],
        "next": None,
        "late": [],
        "late_count": 0,
    }
    assert by


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/writers/sloww"),
        ("DELETE", "/writers/sloww"),
        ("POST", "/writers/sloww/hold"),
        ("DELETE", "/writers/sloww/hold"),
        ("GET", "/explain?exclude=sloww"),
    ],
)
async def test_a_mistyped_writer_is_reported(call: Caller, method: str, path: str) -> None:
    """Nothing is changed, and the answer says where the names are."""
    await call.note({"writer": "slow", "time": 5})
    body = {"json": {"for_ms": 1}} if method == "POST" else {}
    answer = await call.client.request(method, f"{S}{path}", **body)  # type: ignore[arg-type]

    status, code, detail = problem(answer)
    assert (status, code) == (404, "unknown_writer")
    assert "no writer 'sloww'" in detail


async def test_a_held_writer_does_not_time_out(call: Caller, time: GivenTime) -> None:
    """Until the hold is over; it is shown with the writer and in explain."""
    await call.put(S, {"writer_timeout_ms": 1000})
    await call.note({"writer": "slow", "time": 5}, {"writer": "a", "time": 9})
    held = (await call.post(f"{S}/writers/slow/hold", {"for_ms": 5000})).json()
    serve_for(call.controller, time, 3000)
    waiting = (await call.get(f"{S}/explain")).json()["waiting_for"]
    await call.note({"writer": "a", "time": 9})
    before = await last_lower(call)
    released = (await call.client.delete(f"{S}/writers/slow/hold")).json()
    await until(lambda: call.controller.stream("s").history(None).last_seq == 2)

    assert (held["held_until"], released["held_until"]) == (WALL + 5000, None)
    assert [(each["writer"], each["times_out_in_ms"]) for each in waiting] == [("slow", 2000)]
    assert (before, await last_lower(call)) == (5, 9)


@pytest.mark.parametrize("state", ["idle", "finished", "excluded"])
async def test_a_writer_that_nothing_waits_for_cannot_be_held(call: Caller, state: str) -> None:
    """The answer says how it stands; releasing it is no fault, and a hold ends after 90 days."""
    await call.note({"writer": "a"}, {"writer": "b"})
    if state == "excluded":
        await call.client.delete(f"{S}/writers/a")
    else:
        await call.note({"writer": "a", "state": state})

    refused = await call.post(f"{S}/writers/a/hold", {"for_ms": 1000})
    released = await call.client.delete(f"{S}/writers/a/hold")
    most = [
        (await call.post(f"{S}/writers/b/hold", {"for_ms": days * 86_400_000 + more})).status_code
        for days, more in ((90, 0), (90, 1))
    ]

    assert problem(refused)[:2] == (409, "not_live")
    assert (refused.json()["writer"], refused.json()["state"]) == ("a", state)
    assert (released.status_code, most) == (200, [200, 422])


async def test_a_dry_run_shows_what_would_happen_and_changes_nothing(call: Caller) -> None:
    """Which writers would be excluded, and where the watermark would go."""
    await call.note({"writer": "slow", "time": 5, "position": {"0": 3}}, {"writer": "a", "time": 9})
    would = (await call.get(f"{S}/explain", exclude=["slow"])).json()["would"]
    nothing = (await call.get(f"{S}/explain", exclude=["a"])).json()["would"]

    assert would == {"decision": "advance", "lower": 9, "cut": {"0": 3}, "excluded": ["slow"]}
    assert nothing == {"decision": "hold", "lower": 5, "cut": {"0": 3}, "excluded": []}
    assert await last_lower(call) == 5


async def test_a_writer_learns_that_it_was_excluded(call: Caller, time: GivenTime) -> None:
    """Why, since when in Unix ms, and what is late; once it has caught up no more."""
    await call.put(S, {"writer_timeout_ms": 1000})
    await call.note({"writer": "slow", "time": 5}, {"writer": "a", "time": 9})
    serve_for(call.controller, time, 1000)
    await until(lambda: call.controller.stream("s").history(None).last_seq == 2)
    late = await call.note({"writer": "slow", "time": 6})
    caught_up = await call.note({"writer": "slow", "time": 12}, {"writer": "slow", "time": 13})

    excluded = {"reason": "timed_out", "since": WALL + 1000, "lower": 9}
    assert late == [{"status": "accepted", "lower": 9, "excluded": excluded}]
    assert ["excluded" in each for each in caught_up] == [False, False]


async def test_a_join_is_answered_with_the_position_that_is_known(call: Caller) -> None:
    """So a writer that crashed continues from there."""
    results = await call.note(
        {"writer": "a"}, {"writer": "a", "time": 5, "position": {"0": 7}}, {"writer": "a"}
    )

    assert ["position" in each for each in results] == [False, False, True]
    assert results[2]["position"] == {"0": 7}


async def test_many_joins_have_no_large_answer(call: Caller) -> None:
    """Positions are listed up to what one request may have; the others still join."""
    wide = {str(segment): 1 for segment in range(1500)}
    await call.note({"writer": "a", "time": 5, "position": wide}, {"writer": "b", "time": 5})
    results = await call.note(*[{"writer": "a"}, {"writer": "b"}] * 5)

    sizes = [len(each.get("position", ())) for each in results]
    assert (sizes[0], sizes[2], sum(sizes)) == (1500, 1500, 3000)
    assert [each["status"] for each in results] == ["accepted"] * 10


async def test_a_writers_own_terms_are_shown(call: Caller) -> None:
    """Its timeout, its domains, and the late rows that it reported."""
    await call.put(S, {"domains": ["default", "ship_time"]})
    note: dict[str, Any] = {"writer": "a", "time": 5, "timeout_ms": 90, "domains": ["default"]}
    await call.note(note | {"late": {"rows": 3, "least": 2}})
    row = (await call.get(f"{S}/writers/a")).json()
    refused = await call.note({"writer": "a", "time": 5, "domain": "ship_time"})

    assert (row["timeout_ms"], row["domains"], row["late"]) == (
        90,
        ["default"],
        {"default": {"rows": 3, "least": 2, "most": 2}},
    )
    assert refused == [{"status": "not_vouched", "last": ["default"]}]


async def test_the_ledger_comes_a_page_at_a_time(call: Caller) -> None:
    """By the seq of the marks, per domain; an unknown domain is reported."""
    await call.note({"writer": "a", "time": 1})
    for time in (2, 3, 4):
        await call.note({"writer": f"gone{time}"})
        await call.send("DELETE", f"{S}/writers/gone{time}", b"")
        await call.note({"writer": "a", "time": time})
    first = (await call.get(f"{S}/ledger", limit=2)).json()
    rest = (await call.get(f"{S}/ledger", limit=2, after=first["next"])).json()
    unknown = await call.get(f"{S}/ledger", domain="nope")

    seqs = [[entry["seq"] for entry in page["entries"]] for page in (first, rest)]
    assert (seqs, first["next"], rest["next"]) == ([[2, 3], [4]], 3, None)
    assert problem(unknown)[:2] == (404, "unknown_domain")
