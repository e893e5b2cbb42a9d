"""The backlog of a reader group over HTTP: set, shown, reported by readers, and refused."""

from typing import Any

import pytest

from tests.support.controllers import GivenTime
from tests.support.http import Caller, problem

GROUP = "/v1/streams/s/reader-groups/g"
READER = f"{GROUP}/readers/r"
WALL = 1_700_000_000_000


def shown(body: dict[str, Any]) -> tuple[bool, list[tuple[Any, ...]], int | None]:
    """Return the backlog in an answer."""
    because = [tuple(cause.values()) for cause in body["because"]]
    return body["backlog"], because, body["since"]


async def test_a_policy_is_set_and_shown_with_what_it_finds(call: Caller, time: GivenTime) -> None:
    """At once, for a group without any report; omitted fields have their defaults."""
    await call.note({"writer": "a", "time": 5, "position": {"0": 3}})
    answers = [await call.put(GROUP, {"backlog": {"behind_ms": 10}})]
    time.passes(5)
    answers.append(await call.get(GROUP))
    answers.append(await call.put(GROUP, {"backlog": None}))

    policy = {"watermark_lag_ms": None, "behind_ms": 10, "rule": "two_way"}
    bodies = [answer.json() for answer in answers]
    assert [(shown(body), body["backlog_policy"]) for body in bodies] == [
        ((True, [("behind", "default", None)], WALL), policy),
        ((True, [("behind", "default", None)], WALL), policy),
        ((False, [], WALL + 5), None),
    ]


async def test_a_reader_reports_a_backlog_itself_until_it_withdraws_it(call: Caller) -> None:
    """A report that does not name it changes nothing; the answers show the group's flag."""
    bodies: list[dict[str, Any]] = [{"backlog": True}, {}, {"backlog": None}, {"backlog": True}]
    answers = [(await call.put(READER, body)).json() for body in bodies]
    answers.append((await call.post(f"{READER}/offline", {"position": {}})).json())

    assert [(answer["backlog"], answer["because"]) for answer in answers] == [
        (True, [{"reason": "told", "domain": None, "reader": "r"}]),
        (True, [{"reason": "told", "domain": None, "reader": "r"}]),
        (False, []),
        (True, [{"reason": "told", "domain": None, "reader": "r"}]),
        (False, []),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"backlog": True},
        {"backlog": {"behind_ms": 0}},
        {"backlog": {"watermark_lag_ms": -1}},
        {"backlog": {"behind_ms": 2**63}},
        {"backlog": {"behind_ms": "1"}},
        {"backlog": {"behind_ms": 1.5}},
        {"backlog": {"rule": "never"}},
        {"backlog": {"behind": 1}},
        {"backlog": None, "policy": None},
    ],
)
async def test_a_wrong_policy_is_refused_and_nothing_is_made(
    call: Caller, body: dict[str, Any]
) -> None:
    """With the fault it names."""
    answer = await call.put(GROUP, body)

    assert problem(answer)[:2] == (422, "invalid_request")
    assert (await call.get(GROUP)).status_code == 404
