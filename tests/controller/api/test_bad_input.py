from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

import pytest

from controller.service import committer
from controller.store.port import StoreUnavailable
from noted_time.values import MarkConflict
from tests.support.http import problem

if TYPE_CHECKING:
    from tests.support.controllers import WatchedMemory
    from tests.support.http import Caller

pytestmark = pytest.mark.anyio

S = "/v1/streams/s"
NAME = "must be 1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
SEGMENT = "must name a segment: a decimal integer below 10^18"

PUT, POST, WINDOW = "PUT", "POST", f"{S}/time-window"
BAD_REQUESTS: list[tuple[str, str, bytes, str, str]] = [
    (
        PUT,
        S,
        b"{",
        "400 malformed_json",
        "body: Expecting property name enclosed in double quotes (byte 1)",
    ),
    (PUT, S, b"\xff", "400 malformed_json", "There was an error parsing the body"),
    (PUT, S, b"[" * 100_000, "400 malformed_json", "There was an error parsing the body"),
    (
        PUT,
        S,
        b"[]",
        "422 invalid_request",
        "body: must be a JSON object, sent with Content-Type: application/json",
    ),
    (
        PUT,
        S,
        b'{"writer_timeout_ms": true}',
        "422 invalid_request",
        "body.writer_timeout_ms: Input should be a valid integer",
    ),
    (
        PUT,
        S,
        b'{"writer_timeout_ms": "5"}',
        "422 invalid_request",
        "body.writer_timeout_ms: Input should be a valid integer",
    ),
    (
        PUT,
        S,
        b'{"writer_timeout_ms": 0}',
        "422 invalid_request",
        "body.writer_timeout_ms: Input should be greater than or equal to 1",
    ),
    (
        PUT,
        S,
        b'{"mark_interval_ms": 9223372036854775808}',
        "422 invalid_request",
        "body.mark_interval_ms: Input should be less than or equal to 9223372036854775807",
    ),
    (
        PUT,
        S,
        b'{"returning_writer": "wait"}',
        "422 invalid_request",
        "body.returning_writer: Input should be 'hold' or 'exclude'",
    ),
    (
        PUT,
        S,
        b'{"mark_interval": 5}',
        "422 invalid_request",
        (
            "body.mark_interval: there is no such field; did you mean 'mark_interval_ms'? "
            "There are: writer_timeout_ms, mark_interval_ms, returning_writer, domains, "
            "mark_retention_ms, max_time_ahead_ms, writer_retention_ms, expected_writers, "
            "reader_timeout_ms, max_segments, max_offset_jump"
        ),
    ),
    (
        PUT,
        S,
        b'{"expected_writers": ["a", "b", "a"]}',
        "422 invalid_request",
        "body.expected_writers: Value error, 'a' is there more than once",
    ),
    (
        PUT,
        S,
        b'{"reader_timeout_ms": 0}',
        "422 invalid_request",
        "body.reader_timeout_ms: Input should be greater than or equal to 1",
    ),
    (PUT, S, b'{"domains": [".."]}', "422 invalid_request", f"body.domains.0: {NAME}"),
    (PUT, "/v1/streams/%2e%2E", b"{}", "422 invalid_request", f"path.stream: {NAME}"),
    (PUT, "/v1/streams/%2e", b"{}", "422 invalid_request", f"path.stream: {NAME}"),
    (
        "GET",
        f"{S}/marks?atfer=3&limit=1&x=",
        b"",
        "422 invalid_request",
        (
            "query.atfer: there is no such query parameter; did you mean 'after'? "
            "There are: domain, after, limit, wait_ms; "
            "query.x: there is no such query parameter; there are: domain, after, limit, wait_ms"
        ),
    ),
    (
        PUT,
        f"{S}?dry_run",
        b"{}",
        "422 invalid_request",
        "query.dry_run: there is no such query parameter; there are: comment",
    ),
    (
        POST,
        f"{S}/notes?x=1&y",
        b'{"notes": [{"writer": "a"}]}',
        "422 invalid_request",
        (
            "query.x: there is no such query parameter; there are none here; "
            "query.y: there is no such query parameter; there are none here"
        ),
    ),
    (
        PUT,
        S,
        b'{"domains": []}',
        "422 invalid_request",
        "body.domains: List should have at least 1 item after validation, not 0",
    ),
    (PUT, S, b'{"domains": ["default", "a b"]}', "422 invalid_request", f"body.domains.1: {NAME}"),
    (
        PUT,
        S,
        b'{"domains": ["default", "default"]}',
        "422 rejected",
        "domains must be one or more different names, not ['default', 'default']",
    ),
    (
        PUT,
        S,
        b'{"domains": ["other"]}',
        "422 rejected",
        "domains can be added, not taken away: default missing",
    ),
    (PUT, "/v1/streams/a%20b", b"{}", "422 invalid_request", f"path.stream: {NAME}"),
    (PUT, "/v1/streams/" + "x" * 250, b"{}", "422 invalid_request", f"path.stream: {NAME}"),
    ("GET", "/v1/streams/a%20b", b"", "422 invalid_request", f"path.stream: {NAME}"),
    (
        POST,
        "/v1/streams/a%20b/notes",
        b'{"notes": [{"writer": "a"}]}',
        "422 invalid_request",
        f"path.stream: {NAME}",
    ),
    (POST, WINDOW, b"", "422 invalid_request", "body: Field required"),
    (POST, WINDOW, b"{}", "422 invalid_request", "body.position: Field required"),
    (
        POST,
        WINDOW,
        b'{"position": {"0": -1}}',
        "422 invalid_request",
        "body.position.0: Input should be greater than or equal to 0",
    ),
    (
        POST,
        WINDOW,
        b'{"position": {"zero": 1}}',
        "422 invalid_request",
        f"body.position.zero: {SEGMENT}",
    ),
    (
        POST,
        WINDOW,
        b'{"position": {}, "domain": "nope"}',
        "404 unknown_domain",
        "the stream has no domain 'nope'; it declares default",
    ),
    (
        "GET",
        f"{S}/marks?wait_ms=30001",
        b"",
        "422 invalid_request",
        "query.wait_ms: Input should be less than or equal to 30000",
    ),
    (
        "GET",
        f"{S}/marks?after=-1",
        b"",
        "422 invalid_request",
        "query.after: Input should be greater than or equal to 0",
    ),
    (
        "GET",
        f"{S}/marks?domain=nope",
        b"",
        "404 unknown_domain",
        "the stream has no domain 'nope'; it declares default",
    ),
    (
        "GET",
        f"{S}/explain?domain=nope",
        b"",
        "404 unknown_domain",
        "the stream has no domain 'nope'; it declares default",
    ),
    ("GET", f"{S}/cut", b"", "422 invalid_request", "query.complete_to: Field required"),
    (
        "GET",
        f"{S}/windows?size_ms=0",
        b"",
        "422 invalid_request",
        "query.size_ms: Input should be greater than or equal to 1",
    ),
    (
        "GET",
        f"{S}/windows?after=9223372036854775808",
        b"",
        "422 invalid_request",
        "query.after: Input should be less than or equal to 9223372036854775807",
    ),
    (
        "GET",
        f"{S}/cut?complete_to=noon",
        b"",
        "422 invalid_request",
        "query.complete_to: Input should be a valid integer, unable to parse string as an integer",
    ),
    (
        "GET",
        f"{S}/reader-groups/g",
        b"",
        "404 unknown_reader",
        "reader group 'g' is not online: it has reported no position",
    ),
    (
        PUT,
        f"{S}/reader-groups/g/readers/a%20b",
        b"{}",
        "422 invalid_request",
        f"path.reader: {NAME}",
    ),
    (
        POST,
        f"{S}/reader-groups/g/readers/r/offline",
        b"{}",
        "404 unknown_reader",
        "reader group 'g' is not online: it has reported no position",
    ),
    (
        POST,
        f"{S}/scale",
        b'{"sealed": {"9": 5}}',
        "422 invalid_scale",
        "segment 9: unknown: no note and no scale event has named it",
    ),
    (
        POST,
        f"{S}/scale",
        b'{"created": {"2": [9]}}',
        "422 invalid_scale",
        "segment 9: not sealed by the event that creates 2",
    ),
    (
        POST,
        f"{S}/scale",
        b'{"created": {"2": [true]}}',
        "422 invalid_request",
        "body.created.2.0: Input should be a valid integer",
    ),
    ("GET", "/v1/nothing", b"", "404 not_found", "Not Found"),
    ("GET", f"{S}/", b"", "404 not_found", "Not Found"),
    ("PATCH", S, b"", "405 method_not_allowed", "Method Not Allowed"),
]


@pytest.mark.parametrize(("method", "path", "body", "kind", "says"), BAD_REQUESTS)
async def test_a_bad_request_is_told_what_is_wrong(  # noqa: PLR0913, PLR0917 - a row of the table
    call: Caller, method: str, path: str, body: bytes, kind: str, says: str
) -> None:
    """Each with its status, its code and a sentence that names the thing."""
    answer = await call.send(method, path, body)

    status, code = kind.split()
    assert problem(answer) == (int(status), code, says)


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
    """With the way to make it."""
    answer = await call.send(method, f"/v1/streams/nope{path}", b"{}")

    says = "there is no stream 'nope': create it with `noted-time stream create nope`"
    assert problem(answer) == (404, "unknown_stream", says)


async def test_notes_to_an_unknown_stream_are_a_404(call: Caller) -> None:
    """On the hot route too."""
    answer = await call.post("/v1/streams/nope/notes", {"notes": [{"writer": "a"}]})

    assert problem(answer)[:2] == (404, "unknown_stream")


async def test_a_sealed_segment_cannot_be_sealed_again(call: Caller) -> None:
    """The error names the segment, as a fact too."""
    await call.note({"writer": "a", "time": 1, "position": {"0": 5}})
    await call.post(f"{S}/scale", {"sealed": {"0": 5}, "created": {"1": [0]}})
    answer = await call.post(f"{S}/scale", {"sealed": {"0": 6}})

    told = (problem(answer), answer.json()["segment"])
    assert told == ((422, "invalid_scale", "segment 0: already sealed at 5"), 0)


async def test_a_405_names_every_method_of_the_path(call: Caller) -> None:
    """Also those of other handlers of the same path."""
    answer = await call.send("PATCH", S, b"")

    assert answer.headers["allow"] == "DELETE, GET, PUT"


async def test_a_database_that_is_away_is_a_503(call: Caller, memory: WatchedMemory) -> None:
    """With a time after which to try again, on both kinds of routes."""
    memory.watch.failures = [StoreUnavailable("the database did not answer: disk I/O error")]
    memory.watch.loads = [StoreUnavailable("away")] * 1000
    first = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    second = await call.put(S, {})

    told = [(problem(answer), answer.headers["retry-after"]) for answer in (first, second)]
    assert told == [
        ((503, "unavailable", "the database did not answer: disk I/O error"), "1"),
        ((503, "unavailable", "the database does not answer; try again"), "1"),
    ]


async def test_a_fault_of_ours_is_told_as_one_to_be_started_again(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits is answered, and liveness fails, so that a supervisor does it."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(call.controller._committer, "_drain", fail)
    note = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    ready, alive = await call.get("/readyz"), await call.get("/healthz")

    assert [problem(answer) for answer in (note, ready, alive)] == [
        (503, "unavailable", "the controller failed; try again"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
    ]


async def test_a_database_that_is_away_is_not_ready(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readiness fails while liveness holds, some seconds after the last commit at the latest."""
    monkeypatch.setattr(committer, "PROVED_S", 0.0)
    memory.close()
    ready, alive = await call.get("/readyz"), await call.get("/healthz")

    told = (problem(ready), alive.status_code)
    assert told == ((503, "unavailable", "the store is closed"), 200)


async def test_probes_do_not_ask_the_database_each(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once ask one question, whose answer counts for a while, as a commit does."""
    pings: list[None] = []
    monkeypatch.setattr(memory, "ping", lambda: pings.append(None))
    after_a_commit = await call.get("/readyz")
    asked = len(pings)
    call.controller._committer._proved_at = -inf
    answers = await asyncio.gather(*(call.get("/readyz") for _ in range(20)))

    assert (asked, len(pings)) == (0, 1)
    assert {answer.status_code for answer in (after_a_commit, *answers)} == {200}


async def test_another_owner_s_mark_is_a_409(call: Caller, memory: WatchedMemory) -> None:
    """Nothing was taken, and the same request may be made again."""
    memory.watch.failures = [MarkConflict("s", "default", 1)]
    refused = await call.post(f"{S}/notes", {"notes": [{"writer": "a", "time": 5}]})

    says = "mark 1 of stream 's', domain 'default' was appended by another"
    assert problem(refused) == (409, "conflict", says)
