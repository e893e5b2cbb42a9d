"""Operators' changes over HTTP: reasons, the record of them, and dry runs."""

from typing import Any

import pytest

from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller, problem

S = "/v1/streams/s"
WALL = 1_700_000_000_000


async def listed(call: Caller, **query: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the page of changes."""
    return (await call.get(f"{S}/changes", **query)).json()


async def test_each_route_for_operators_takes_a_reason(call: Caller) -> None:
    """It is kept with the caller, the old value and the new one."""
    await call.note({"writer": "w", "time": 5, "position": {"0": 3}}, {"writer": "w", "time": 9})
    why = {"params": {"comment": "the gate is <closed> & “late”"}}
    calls: list[tuple[str, str, Any]] = [
        ("PUT", "", {"writer_timeout_ms": 7}),
        ("POST", "/writers/w/hold", {"for_ms": 1000}),
        ("DELETE", "/writers/w/hold", None),
        ("DELETE", "/writers/w", None),
        ("POST", "/truncate", {"cut": {"0": 3}}),
        ("POST", "/scale", {"sealed": {"0": 9}, "created": {"1": [0]}}),
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
    timeouts = {"was": {"writer_timeout_ms": 60_000}, "is": {"writer_timeout_ms": 7}}
    assert page == {
        "changes": [
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
    """The newest first; `next` leads to older ones."""
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
    """Of 1 to 500 characters; else nothing is changed."""
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
    """409, and nothing is changed; from that moment on it can be removed."""
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


async def test_without_tokens_anybody_may_do_everything(call: Caller) -> None:
    """So the page asks for none."""
    answer = await call.get("/v1/access")

    common = {"tokens": False, "token": None, "administer": True, "read_all": True}
    assert common.items() <= answer.json().items()
