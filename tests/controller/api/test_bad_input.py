"""Requests with faults, and times in another unit than the stream's."""

import asyncio
from math import inf
from typing import Any

import pytest
from structlog.testing import CapturedCall, CapturingLogger

from controller.service import committer
from controller.store.port import StoreUnavailable
from noted_time.values import MarkConflict
from tests.support.controllers import WatchedMemory, until
from tests.support.http import Caller, places, problem

S = "/v1/streams/s"

NOW = 1_700_000_000_000

GET, PUT, POST, PATCH, WINDOW = "GET", "PUT", "POST", "PATCH", f"{S}/time-window"

INVALID = [
    (PUT, S, b"[]", "body"),
    (PUT, S, b'{"writer_timeout_ms": true}', "body.writer_timeout_ms"),
    (PUT, S, b'{"writer_timeout_ms": "5"}', "body.writer_timeout_ms"),
    (PUT, S, b'{"writer_timeout_ms": 0}', "body.writer_timeout_ms"),
    (PUT, S, b'{"mark_interval_ms": 9223372036854775808}', "body.mark_interval_ms"),
    (PUT, S, b'{"returning_writer": "wait"}', "body.returning_writer"),
    (PUT, S, b'{"mark_interval": 5}', "body.mark_interval"),
    (PUT, S, b'{"expected_writers": ["a", "b", "a"]}', "body.expected_writers"),
    (PUT, "/v1/streams/%2e%2E", b"{}", "path.stream"),
    (GET, f"{S}/marks?atfer=3&limit=1&x=", b"", "query.atfer query.x"),
    (PUT, f"{S}?dry_run", b"{}", "query.dry_run"),
    (POST, f"{S}/notes?x=1&y", b'{"notes": [{"writer": "a"}]}', "query.x query.y"),
    (PUT, S, b'{"domains": []}', "body.domains"),
    (PUT, "/v1/streams/a%20b", b"{}", "path.stream"),
    (POST, "/v1/streams/a%20b/notes", b'{"notes": [{"writer": "a"}]}', "path.stream"),
    (POST, WINDOW, b"", "body"),
    (POST, WINDOW, b"{}", "body.position"),
    (POST, WINDOW, b'{"position": {"0": -1}}', "body.position.0"),
    (POST, WINDOW, b'{"position": {"zero": 1}}', "body.position.zero"),
    (GET, f"{S}/marks?wait_ms=30001", b"", "query.wait_ms"),
    (GET, f"{S}/marks?after=-1", b"", "query.after"),
    (GET, f"{S}/cut", b"", "query.complete_to"),
    (GET, f"{S}/windows?size_ms=0", b"", "query.size_ms"),
    (GET, f"{S}/cut?complete_to=noon", b"", "query.complete_to"),
    (PUT, f"{S}/reader-groups/g/readers/a%20b", b"{}", "path.reader"),
    (POST, f"{S}/scale", b'{"created": {"2": [true]}}', "body.created.2.0"),
    (GET, "/v1/overview?limit=1001", b"", "query.limit"),
    (GET, "/v1/overview?limit=0", b"", "query.limit"),
    (GET, "/v1/overview?start=-1", b"", "query.start"),
    (GET, "/v1/overview?sort=lag", b"", "query.sort"),
    (GET, "/v1/overview?serach=a", b"", "query.serach"),
    (GET, f"{S}/history?points=0", b"", "query.points"),
    (GET, f"{S}/history?points=2001", b"", "query.points"),
    *(
        (GET, f"{S}/explain?position={position}", b"", f"query.position{place}")
        for position, place in (
            *((each, "") for each in ("", "0:9", "[]", "null")),
            *(('{"0": "9"}', ".0"), ('{"a": 9}', ".a"), ('{"0": -1}', ".0")),
        )
    ),
]
"""What is asked, and the places that do not fit."""

REFUSED = [
    (PUT, S, b"{", 400, "malformed_json"),
    (PUT, S, b"\xff", 400, "malformed_json"),
    (PUT, S, b"[" * 100000, 400, "malformed_json"),
    (PUT, S, b'{"domains": ["default", "default"]}', 422, "rejected"),
    (PUT, S, b'{"domains": ["other"]}', 422, "rejected"),
    (POST, WINDOW, b'{"position": {}, "domain": "nope"}', 404, "unknown_domain"),
    (GET, f"{S}/marks?domain=nope", b"", 404, "unknown_domain"),
    (GET, f"{S}/reader-groups/g", b"", 404, "unknown_reader"),
    (POST, f"{S}/scale", b'{"sealed": {"9": 5}}', 422, "invalid_scale"),
    (POST, f"{S}/scale", b'{"created": {"2": [9]}}', 422, "invalid_scale"),
    (GET, "/v1/nothing", b"", 404, "not_found"),
    (GET, f"{S}/", b"", 404, "not_found"),
    (POST, f"{S}/writers/a/position", b"{}", 404, "not_found"),
    (PATCH, S, b"", 405, "method_not_allowed"),
    (GET, f"{S}/history?from=5&to=5", b"", 422, "rejected"),
    (GET, f"{S}/history?from={NOW}", b"", 422, "rejected"),
    (POST, "/v1/streams/nope/notes", b'{"notes": [{"writer": "a"}]}', 404, "unknown_stream"),
]
"""What is asked, and status and code of the answer."""


@pytest.mark.parametrize(("method", "path", "body", "where"), INVALID)
async def test_the_answer_to_a_bad_request_names_the_fault(
    call: Caller, method: str, path: str, body: bytes, where: str
) -> None:
    answer = await call.send(method, path, body)

    assert (*problem(answer)[:2], places(answer)) == (422, "invalid_request", where.split())
    assert "Input should" not in problem(answer)[2]


@pytest.mark.parametrize(
    ("method", "path", "body", "what"),
    [
        (PUT, S, b'{"writer_timeout_ms": 0}', "body.writer_timeout_ms: must be at least 1, not 0"),
        (PUT, S, b'{"domains": 5}', "body.domains: must be a list, not 5"),
        (PUT, S, b'{"returning_writer": "keep"}', "must be 'hold' or 'exclude', not 'keep'"),
        (
            PUT,
            S,
            b'{"expected_writers": ["a", "a"]}',
            "body.expected_writers: 'a' appears more than once",
        ),
        (GET, f"{S}/cut", b"", "query.complete_to: is missing"),
        (
            GET,
            f"{S}/cut?complete_to=2013-01-01T10:00Z",
            b"",
            "must be an integer, not '2013-01-01T10:00Z': in Unix ms that is 1357034400000",
        ),
        (GET, f"{S}/writers?limit=many", b"", "query.limit: must be an integer, not 'many'"),
        (GET, "/v1/streems", b"", "there is no call at /v1/streems: /openapi.json lists them"),
        (PATCH, S, b"", "/v1/streams/s takes DELETE, GET, PUT, not PATCH"),
    ],
)
async def test_field_value_and_remedy_are_named(
    call: Caller, method: str, path: str, body: bytes, what: str
) -> None:
    assert what in problem(await call.send(method, path, body))[2]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED)
async def test_a_request_that_cannot_be_done_is_refused(  # noqa: PLR0913, PLR0917 - a row of the table
    call: Caller, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    answer = await call.send(method, path, body)

    assert (*problem(answer)[:2], places(answer)) == (status, code, [])


@pytest.mark.parametrize(
    ("path", "body", "meant"),
    [(S, b'{"mark_interval": 5}', "mark_interval_ms"), (f"{S}?coment=x", b"{}", "comment")],
)
async def test_what_was_meant_is_asked(call: Caller, path: str, body: bytes, meant: str) -> None:
    """By the most similar name."""
    answer = await call.send(PUT, path, body)

    assert f"did you mean '{meant}'?" in problem(answer)[2]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/writers"),
        ("GET", "/marks?wait_ms=30000"),
        ("GET", "/cut?complete_to=5"),
        ("GET", "/explain"),
        ("GET", "/reader-groups/g"),
        ("PUT", "/reader-groups/g/readers/r"),
        ("POST", "/reader-groups/g/readers/r/offline"),
        ("POST", "/scale"),
    ],
)
async def test_an_unknown_stream_is_a_404_everywhere(call: Caller, method: str, path: str) -> None:
    """With the remedy."""
    answer = await call.send(method, f"/v1/streams/nope{path}", b"{}")

    says = "there is no stream 'nope': create it with `noted-time stream create nope`"
    assert problem(answer) == (404, "unknown_stream", says)


async def test_a_405_names_every_method_of_the_path(call: Caller) -> None:
    answer = await call.send("PATCH", S, b"")

    assert answer.headers["allow"] == "DELETE, GET, PUT"


async def test_a_database_that_is_away_is_a_503(call: Caller, memory: WatchedMemory) -> None:
    """With a delay, on both kinds of routes."""
    memory.watch.failures = [StoreUnavailable("the database did not answer: disk I/O error")]
    memory.watch.loads = [StoreUnavailable("away")] * 1000
    first = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    second = await call.put(S, {})

    answered = [(problem(answer), answer.headers["retry-after"]) for answer in (first, second)]
    assert answered == [
        ((503, "unavailable", "the database did not answer: disk I/O error"), "1"),
        ((503, "unavailable", "the database does not answer; try again"), "1"),
    ]


async def test_an_internal_fault_asks_for_a_restart(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting callers are answered, liveness fails, and the log has the traceback."""
    logger, fault = CapturingLogger(), ZeroDivisionError()

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(committer, "log", logger)
    monkeypatch.setattr(call.controller._committer, "_drain", fail)
    note = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    ready, alive = await call.get("/readyz"), await call.get("/healthz")

    assert [problem(answer) for answer in (note, ready, alive)] == [
        (503, "unavailable", "the controller failed; try again"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
    ]
    assert logger.calls == [CapturedCall("critical", ("committer_failed",), {"exc_info": fault})]


async def test_a_database_that_is_away_is_not_ready(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "PROOF_LASTS_S", 0.0)
    memory.close()
    ready, alive = await call.get("/readyz"), await call.get("/healthz")

    answered = (problem(ready), alive.status_code)
    assert answered == ((503, "unavailable", "the store is closed"), 200)


async def test_probes_do_not_ask_the_database_each(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer counts for a while, like a commit."""
    pings: list[None] = []
    monkeypatch.setattr(memory, "ping", lambda: pings.append(None))
    after_a_commit = await call.get("/readyz")
    asked = len(pings)
    call.controller._committer._proved_at = -inf
    answers = await asyncio.gather(*(call.get("/readyz") for _ in range(20)))

    assert (asked, len(pings)) == (0, 1)
    assert {answer.status_code for answer in (after_a_commit, *answers)} == {200}


async def test_another_owner_s_mark_is_a_409(call: Caller, memory: WatchedMemory) -> None:
    memory.watch.failures = [MarkConflict("s", "default", 1)]
    refused = await call.post(f"{S}/notes", {"notes": [{"writer": "a", "time": 5}]})

    says = "mark 1 of stream 's', domain 'default' was appended by another"
    assert problem(refused) == (409, "conflict", says)


# Times in seconds in a stream of milliseconds are refused by every call


SECONDS = 1_700_000_000

ASKS = {"cut": {"complete_to": SECONDS}, "windows": {"after": SECONDS}}

reads = pytest.mark.parametrize("path", ASKS)


@reads
async def test_a_time_in_seconds_is_refused(call: Caller, path: str) -> None:
    """As milliseconds they are in January 1970, and so complete for ever."""
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
    """It began before there was any mark."""
    poll = asyncio.create_task(call.get(f"{S}/{path}", **ASKS[path], wait_ms=30_000))
    await until(lambda: len(call.controller._notifier) == 1)
    await call.note({"writer": "a", "time": NOW})

    assert problem(await poll)[:2] == (422, "implausible_time")


@reads
async def test_times_of_another_clock_are_taken_as_they_are(call: Caller, path: str) -> None:
    """Such a stream declares it by `max_time_ahead_ms: null`."""
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
    """Its notes are accepted, and its time holds."""
    await call.note({"writer": "berlin", "time": SECONDS, "position": {"0": 1}})
    await call.note({"writer": "lima", "time": NOW, "position": {"1": 1}, "max_time": NOW})
    found = (await call.get(f"{S}/explain")).json()["hints"]
    await call.put(S, {"max_time_ahead_ms": None})
    none = (await call.get(f"{S}/explain")).json()["hints"]

    detail = "noted 1700000000, which is January 1970: are these seconds?"
    assert (found, none) == ([{"writer": "berlin", "hint": "seconds", "detail": detail}], [])


async def test_who_notes_times_without_a_position_is_named(call: Caller) -> None:
    """Only if others name positions: a table has none."""
    rounds: list[dict[str, Any]] = [
        {"writer": "berlin", "time": NOW},
        {"writer": "lima", "position": {"1": 0}},
        {"writer": "berlin", "position": {"0": 0}},
    ]
    found = []
    for note in rounds:
        await call.note(note)
        found.append((await call.get(f"{S}/explain")).json()["hints"])

    detail = "never noted a position, so no cut covers its rows."
    assert found == [[], [{"writer": "berlin", "hint": "no_position", "detail": detail}], []]


async def test_a_cut_shows_whether_it_has_a_position(call: Caller) -> None:
    """An empty cut is complete at once."""
    await call.note({"writer": "a", "time": NOW})
    without = (await call.get(f"{S}/cut", complete_to=NOW)).json()
    await call.note({"writer": "a", "time": NOW + 1, "position": {"0": 1}})
    behind = (await call.get(f"{S}/cut", complete_to=NOW + 1)).json()

    assert [(each["cut"], each["has_position"]) for each in (without, behind)] == [
        ({}, False),
        ({"0": 1}, True),
    ]


# Times too far beyond the wall clock, if the stream sets a bound


async def test_the_bound_is_reported_as_a_status_of_the_note(call: Caller) -> None:
    await call.put("/v1/streams/s", {"max_time_ahead_ms": 1000})

    results = await call.note({"writer": "a", "time": NOW + 5000}, {"writer": "b", "time": 5})

    assert results == [
        {
            "status": "too_far_ahead",
            "last": NOW + 1000,
            "field": "time",
            "time": NOW + 5000,
            "detail": "time 2023-11-14T22:13:25Z is 4s too far ahead",
        },
        {"status": "accepted", "lower": 5},
    ]


@pytest.mark.parametrize(("factor", "unit"), [(10**3, "microseconds"), (10**6, "nanoseconds")])
async def test_a_refusal_asks_for_the_unit_that_fits(call: Caller, factor: int, unit: str) -> None:
    answer = await call.post(
        "/v1/streams/s/notes", {"notes": [{"writer": "a", "time": 5, "max_time": NOW * factor}]}
    )

    years = (NOW * factor - NOW - 3_600_000) // (365 * 86_400_000)
    assert problem(answer)[2] == (
        f"no note was accepted: 1 too_far_ahead; "
        f"max_time {NOW * factor} is {years} years too far ahead: {unit}?"
    )
