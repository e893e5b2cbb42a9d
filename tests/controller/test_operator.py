"""Changes by operators, and their records."""

import asyncio
from typing import Any

import pytest

from controller.aggregation import operations
from controller.aggregation.operations import ANONYMOUS_ORDER, Order, Truncation, preview_truncation
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.port import Change
from noted_time import Note, NotedMeanwhile, ScaleEvent
from noted_time.values import DAY_MS
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    member,
    serve_for,
    serving,
    until,
)
from tests.support.http import Caller, problem

OPS = Order("ops", "it is slow")


async def changes(controller: Controller) -> list[tuple[int, Change]]:
    return await controller.views.changes("s", before=None, limit=1000)


async def test_what_changes_nothing_is_not_recorded(memory: WatchedMemory) -> None:
    async with serving(memory) as controller:
        await deliver(controller, Note("a", 1, {0: 5}), Note("b", 2, {0: 6}))
        await controller.change("s", operations.remove, ANONYMOUS_ORDER, "a")
        before = len(await changes(controller))
        await controller.put_stream("s", {"mark_interval_ms": 0})
        await controller.change("s", operations.remove, ANONYMOUS_ORDER, "a")
        await controller.change("s", operations.hold, ANONYMOUS_ORDER, "b", None)
        await controller.change("s", operations.truncate, ANONYMOUS_ORDER, {})
        await controller.change("s", operations.scale, ANONYMOUS_ORDER, ScaleEvent({}, {}))

        assert len(await changes(controller)) == before


async def test_changes_are_kept_for_90_days(store: Watched, time: GivenTime) -> None:
    """Except the last one, which numbers the next."""
    async with serving(store, time) as controller:
        await deliver(controller, Note("a", 1))
        time.wall += 90 * DAY_MS
        await controller.change("s", operations.hold, ANONYMOUS_ORDER, "a", 1000)
        time.wall += 1
        await asyncio.sleep(0)  # a controller counts from its first turn
        serve_for(controller, time, maintenance.FORGET_RECORDS_EVERY_MS)
        await until(lambda: store.changes(controller.stream("s").id, before=2, limit=9) == [])

        assert [number for number, _ in await changes(controller)] == [2]


async def test_a_note_that_came_first_is_seen_by_the_removal(
    store: Watched, time: GivenTime
) -> None:
    """It is checked when the removal is done."""
    async with serving(store, time) as controller:
        await deliver(controller, Note("a", 1))
        seen = member(controller, "a").noted_at
        store.watch.open.clear()
        under_way = asyncio.ensure_future(deliver(controller, Note("b", 1)))
        await until(lambda: store.watch.attempts == 3)
        serve_for(controller, time, 50)
        noted = controller.note("s", [Note("a", 2)])
        removal = asyncio.ensure_future(controller.change("s", operations.remove, OPS, "a", seen))
        await asyncio.sleep(0)
        store.watch.open.set()
        await asyncio.gather(under_way, noted)

        with pytest.raises(NotedMeanwhile):
            await removal


@pytest.mark.parametrize(
    ("cut", "does"),
    [
        ({}, Truncation(beyond=False, dropped={"x": 0, "y": 0})),
        ({0: 20}, Truncation(beyond=False, dropped={"x": 1, "y": 0})),
        ({0: 31}, Truncation(beyond=True, dropped={"x": 2, "y": 0})),
        ({0: 40}, Truncation(beyond=True, dropped={"x": 2, "y": 1})),
        ({0: 10, 1: 1}, Truncation(beyond=True, dropped={"x": 0, "y": 0})),
    ],
)
async def test_a_truncation_does_what_its_dry_run_shows(
    memory: WatchedMemory, cut: dict[int, int], does: Truncation
) -> None:
    async with serving(memory, domains=("x", "y")) as controller:
        notes = [(1, 10, "x"), (1, 10, "y"), (2, 20, "x"), (3, 30, "x"), (2, 40, "y")]
        await deliver(
            controller, *(Note("a", t, {0: to}, domain=domain) for t, to, domain in notes)
        )
        marks = {domain: len(marks_of(controller, domain)) for domain in ("x", "y")}
        said = preview_truncation(controller.stream("s"), cut)
        _, done = await controller.change("s", operations.truncate, ANONYMOUS_ORDER, cut)

        left = {domain: len(marks_of(controller, domain)) for domain in marks}
    gone = {domain: marks[domain] - left[domain] for domain in marks}
    assert (said, done, gone) == (does, does, does.dropped)


async def test_a_dry_run_of_a_truncation_answers_as_the_truncation(call: Caller) -> None:
    for time, offset in ((5, 3), (7, 9), (8, 9)):
        await call.note({"writer": "a", "time": time, "position": {"0": offset}})

    answers = [
        await call.post(f"/v1/streams/s/truncate{query}", {"cut": {"0": 9}})
        for query in ("?dry_run=true", "")
    ]

    assert [(each.status_code, each.json()["dropped"]) for each in answers] == [
        (200, {"default": 2})
    ] * 2


async def test_without_a_mark_any_cut_is_beyond(memory: WatchedMemory) -> None:
    async with serving(memory) as controller:
        stream = controller.stream("s")
        found = [preview_truncation(stream, cut).beyond for cut in ({}, {0: 0}, {0: 1})]

    assert found == [False, False, True]


S = "/v1/streams/s"

WALL = 1_700_000_000_000


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
    await call.note({"writer": "slow", "time": 5})
    body = {"json": {"for_ms": 1}} if method == "POST" else {}
    answer = await call.client.request(method, f"{S}{path}", **body)  # type: ignore[arg-type]

    status, code, detail = problem(answer)
    assert (status, code) == (404, "unknown_writer")
    assert "no writer 'sloww'" in detail


@pytest.mark.parametrize("state", ["idle", "finished", "excluded"])
async def test_a_writer_that_nothing_waits_for_cannot_be_held(call: Caller, state: str) -> None:
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


async def test_many_joins_have_no_large_answer(call: Caller) -> None:
    """Positions are limited to the size of one request."""
    wide = {str(segment): 1 for segment in range(1500)}
    await call.note({"writer": "a", "time": 5, "position": wide}, {"writer": "b", "time": 5})
    results = await call.note(*[{"writer": "a"}, {"writer": "b"}] * 5)

    sizes = [len(each.get("position", ())) for each in results]
    assert (sizes[0], sizes[2], sum(sizes)) == (1500, 1500, 3000)
    assert [each["status"] for each in results] == ["accepted"] * 10


async def test_a_writers_own_terms_are_shown(call: Caller) -> None:
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


@pytest.mark.parametrize(
    ("order", "pages", "after"), [("oldest", [[2, 3], [4]], 3), ("newest", [[4, 3], [2]], 3)]
)
async def test_the_ledger_comes_a_page_at_a_time(
    call: Caller, order: str, pages: list[list[int]], after: int
) -> None:
    await call.note({"writer": "a", "time": 1})
    for time in (2, 3, 4):
        await call.note({"writer": f"gone{time}"})
        await call.client.delete(f"{S}/writers/gone{time}")
        await call.note({"writer": "a", "time": time})
    first = (await call.get(f"{S}/ledger", limit=2, order=order)).json()
    rest = (await call.get(f"{S}/ledger", limit=2, order=order, after=first["next"])).json()
    unknown = await call.get(f"{S}/ledger", domain="nope")

    seqs = [[entry["seq"] for entry in page["entries"]] for page in (first, rest)]
    assert (seqs, first["next"], rest["next"]) == (pages, after, None)
    assert problem(unknown)[:2] == (404, "unknown_domain")


async def listed(call: Caller, **query: Any) -> Any:  # noqa: ANN401 - any JSON
    return (await call.get(f"{S}/changes", **query)).json()


async def test_each_route_for_operators_takes_a_reason(call: Caller) -> None:
    await call.note({"writer": "w", "time": 5, "position": {"0": 3}}, {"writer": "w", "time": 9})
    why = {"params": {"comment": "the gate is <closed> & “late”"}}
    calls: list[tuple[str, str, Any]] = [
        ("PUT", "", {"writer_timeout_ms": 7}),
        ("POST", "/writers/w/hold", {"for_ms": 1000}),
        ("DELETE", "/writers/w/hold", None),
        ("DELETE", "/writers/w", None),
        ("POST", "/truncate", {"cut": {"0": 3}}),
        ("POST", "/scale", {"sealed": {"0": 9}, "created": {"1": [0]}}),
        ("POST", "/seal", {}),
        ("POST", "/seal", {}),
    ]
    for method, path, body in calls:
        answer = await call.client.request(method, S + path, json=body, **why)  # type: ignore[arg-type]
        assert answer.status_code == 200, answer.text
    page = await listed(call)

    by = page["changes"][0]["by"]
    common = {"at": WALL, "by": by, "comment": why["params"]["comment"]}
    until, w = WALL + 1000, {"writer": "w"}
    nothing: dict[str, Any] = {"writer": None, "was": None, "is": None}
    created = {"sealed": {"0": 9}, "created": {"1": [0]}}
    held = {"for_ms": 1000, "until": until}
    ended = {"cut": {"0": 3}, "final_times": {"default": 10}}
    timeouts = {"was": {"writer_timeout_ms": 60_000}, "is": {"writer_timeout_ms": 7}}
    assert page == {
        "changes": [
            {"number": 8, "action": "sealed", **nothing, **common, "is": ended},
            {"number": 7, "action": "scaled", **nothing, **common, "is": created},
            {"number": 6, "action": "truncated", **nothing, **common, "is": {"cut": {"0": 3}}},
            {"number": 5, "action": "removed", **nothing, **common, **w},
            {"number": 4, "action": "released", **nothing, **common, **w, "was": {"until": until}},
            {"number": 3, "action": "held", **nothing, **common, **w, "is": held},
            {"number": 2, "action": "settings", **nothing, **common, **timeouts},
            page["changes"][-1],
        ],
        "next": None,
    }
    first = page["changes"][-1]
    assert (by != "", first["number"], first["action"], first["comment"]) == (
        True,
        1,
        "created",
        None,
    )


async def test_changes_come_a_page_at_a_time(call: Caller) -> None:
    await call.note({"writer": "w"})
    for ms in (1, 2, 3):
        await call.post(f"{S}/writers/w/hold", {"for_ms": ms})
    first = await listed(call, limit=2)
    rest = await listed(call, limit=2, before=first["next"])

    numbers = [[each["number"] for each in page["changes"]] for page in (first, rest)]
    assert (numbers, first["next"], rest["next"]) == ([[4, 3], [2, 1]], 3, None)


@pytest.mark.parametrize(
    "comment",
    [
        *("", "x" * 501, "two\nlines", "two\u2028lines", "\x1b[2J", "nul\x00", "\x7f", "\x9b"),
        *map("{}exe.txt".format, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"),
    ],
)
async def test_a_reason_is_one_line_of_text(call: Caller, comment: str) -> None:
    answer = await call.client.put(S, params={"comment": comment}, json={"writer_timeout_ms": 7})
    page = await listed(call)

    status, code, detail = problem(answer)
    assert (status, code, "query.comment" in detail, len(page["changes"])) == (
        422,
        "invalid_request",
        True,
        1,
    )


async def test_a_writer_that_noted_meanwhile_is_named_with_the_moment(
    call: Caller, time: GivenTime
) -> None:
    await call.note({"writer": "w", "time": 5})
    serve_for(call.controller, time, 50)
    await call.note({"writer": "w", "time": 6})
    refused = await call.client.delete(f"{S}/writers/w", params={"unless_noted_since": WALL + 49})
    state = (await call.get(f"{S}/writers/w")).json()["state"]
    removed = await call.client.delete(f"{S}/writers/w", params={"unless_noted_since": WALL + 50})

    body = refused.json()
    assert (problem(refused)[:2], body["writer"], body["noted_at"], state, removed.status_code) == (
        (409, "noted_meanwhile"),
        "w",
        WALL + 50,
        "live",
        200,
    )
