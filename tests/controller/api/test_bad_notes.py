"""Faults of notes are explained, refused notes counted, and bodies bounded."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from controller.api.gate.access import OPEN_PATHS
from controller.api.middleware import MAX_BODY
from tests.support.controllers import names
from tests.support.http import Caller, places, problem

S = "/v1/streams/s"

LATE = '{"rows": 1, "least": 1}'

BAD_NOTES = [
    ('{"writer": "a", "position": {"7": -1}}', "position.7"),
    ('{"writer": "a", "position": {"7": 9223372036854775808}}', "position.7"),
    ('{"writer": "a", "position": {"7": true}}', "position.7"),
    ('{"writer": "a", "position": {"7": "5"}}', "position.7"),
    ('{"writer": "a", "position": {"7": 5.0}}', "position.7"),
    ('{"writer": "a", "position": {"x": 1}}', "position.x"),
    ('{"writer": "a", "position": {"-1": 1}}', "position.-1"),
    ('{"writer": "a", "position": {"00": 1}}', "position.00"),
    ('{"writer": "a", "position": {"1000000000000000000": 1}}', "position.1000000000000000000"),
    ('{"writer": "a", "position": [1]}', "position"),
    ('{"writer": "a", "time": 9223372036854775808}', "time"),
    ('{"writer": "a", "time": -9223372036854775809}', "time"),
    ('{"writer": "a", "time": true}', "time"),
    ('{"writer": "a", "time": "5"}', "time"),
    ('{"writer": "a", "max_time": 1.5}', "max_time"),
    ('{"writer": "a", "max_times": {"default": 1.5}}', "max_times.default"),
    ('{"writer": "a b"}', "writer"),
    ('{"writer": "a\\n"}', "writer"),
    ('{"writer": "Zoë"}', "writer"),
    ('{"writer": ""}', "writer"),
    ('{"writer": 5}', "writer"),
    ('{"writer": null}', "writer"),
    ('{"time": 5}', "writer"),
    ('{"writer": "a", "domain": "a b"}', "domain"),
    ('{"writer": "a", "domain": ""}', "domain"),
    ('{"writer": "a", "state": "dead"}', "state"),
    ('{"writer": "a", "session": "a b"}', "session"),
    (f'{{"writer": "a", "session": "{"a" * 65}"}}', "session"),
    ('{"writer": "a", "takes_over": 1}', "takes_over"),
    ('{"writer": "a", "label": "a\\n"}', "label"),
    ('{"writer": "a", "label": "\u202eb"}', "label"),
    *(
        ('{"writer": "a", "label": "host' + each + '-b"}', "label")
        for each in "\u200b\u200d\u2060\ufeff\u00ad"
    ),
    ('{"writer": "a", "held": "a\\n"}', "held"),
    ('{"writer": "a", "held": ""}', "held"),
    (f'{{"writer": "a", "held": "{"a" * 201}"}}', "held"),
    ('{"writer": "a", "sequence": 0}', "sequence"),
    ('{"writer": "a", "sequence": 9223372036854775808}', "sequence"),
    ('{"writer": "a", "sequence": "1"}', "sequence"),
    ('{"writer": "a", "state": ["live"]}', "state"),
    ('{"writer": "a", "timeout_ms": 0}', "timeout_ms"),
    ('{"writer": "a", "domains": []}', "domains"),
    ('{"writer": ".."}', "writer"),
    ('{"writer": "a", "late": {"rows": 0, "least": 1}}', "late.rows"),
    ('{"writer": "a", "late": [{"rows": 1, "least": 1}, {"rows": 0, "least": 1}]}', "late.1.rows"),
    (f'{{"writer": "a", "late": [{", ".join([LATE] * 25)}]}}', "late"),
    ('{"writer": "a", "tiem": 5}', "tiem"),
]

"""A note, and where it is invalid."""


@pytest.mark.parametrize(("note", "where"), BAD_NOTES)
async def test_a_note_that_does_not_fit_is_named(call: Caller, note: str, where: str) -> None:
    body = f'{{"notes": [{{"writer": "fine", "time": 1}}, {note}]}}'
    answer = await call.send("POST", f"{S}/notes", body.encode())

    assert (*problem(answer)[:2], places(answer)) == (
        422,
        "invalid_request",
        [f"body.notes.1.{where}"],
    )


async def test_a_request_with_a_note_that_does_not_fit_changes_nothing(call: Caller) -> None:
    await call.post(f"{S}/notes", {"notes": [{"writer": "a", "time": 9}, {"writer": "b b"}]})

    assert await call.note({"writer": "a", "time": 1}) == [{"status": "accepted", "lower": 1}]


MANY = b'{"notes": [%s]}' % b",".join([b'{"writer":"a"}'] * 1001)

BAD_BODIES: list[tuple[bytes, int, str, str]] = [
    (b"", 400, "malformed_json", ""),
    (b'{"notes": [', 400, "malformed_json", ""),
    (b"nonsense", 400, "malformed_json", ""),
    (b'{"notes": [{"writer": "\xff"}]}', 400, "malformed_json", ""),
    (b"[]", 422, "invalid_request", "body"),
    (b"{}", 422, "invalid_request", "body.notes"),
    (b'{"notes": 5}', 422, "invalid_request", "body.notes"),
    (b'{"notes": []}', 422, "invalid_request", "body.notes"),
    (b'{"notes": [5]}', 422, "invalid_request", "body.notes.0"),
    (MANY, 422, "invalid_request", "body.notes"),
    (b'{"notes": [{"writer": "a"}], "more": 1}', 422, "invalid_request", "body.more"),
]

"""A body, and status, code and place of the answer."""


@pytest.mark.parametrize(("body", "status", "code", "where"), BAD_BODIES)
async def test_a_body_of_notes_that_does_not_fit_is_explained(
    call: Caller, body: bytes, status: int, code: str, where: str
) -> None:
    """400 if it is not JSON, 422 with the place if it is not notes."""
    answer = await call.send("POST", f"{S}/notes", body)

    assert (*problem(answer)[:2], places(answer)) == (status, code, where.split())


@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 100_000, b'{"notes":' + b"[" * 100_000])
async def test_deep_nesting_breaks_nothing(call: Caller, body: bytes) -> None:
    answer = await call.send("POST", f"{S}/notes", body)

    assert problem(answer)[:2] == (422, "invalid_request")


@pytest.mark.parametrize(
    "value", ["1" + "0" * 30, "-" + "9" * 400, "1e400", "NaN", '{"a":[1e999]}', '"\\ud800"']
)
async def test_no_number_or_text_breaks_the_answer(call: Caller, value: str) -> None:
    body = f'{{"notes":[{{"writer":"a","time":{value}}}]}}'
    answer = await call.send("POST", f"{S}/notes", body.encode())

    assert answer.status_code in {400, 422}
    assert len(problem(answer)[2]) < 200


async def test_ten_faults_of_a_body_are_reported_at_once(call: Caller) -> None:
    answer = await call.post(f"{S}/notes", {"notes": [{"writer": "a b", "time": "x"}] * 20})

    assert len(answer.json()["errors"]) == 10


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_a_path_that_is_open_to_strangers_takes_no_body(call: Caller, path: str) -> None:
    answer = await call.send("GET", path, b"{}")

    assert problem(answer) == (413, "too_large", "the body is over 0 bytes")


async def test_a_chunked_body_over_one_mebibyte_is_refused(call: Caller) -> None:
    """Without a length in the header it is measured as it comes."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 65536 + 1):
            yield b" " * 65536

    answer = await call.client.post(f"{S}/notes", content=chunks())

    assert problem(answer)[:2] == (413, "too_large")


async def test_a_client_that_hangs_up_halfway_asked_for_nothing(call: Caller) -> None:
    """Half of a PUT is not a PUT without a body."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": b"", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - any ASGI message
        sent.append(message)

    transport = call.client._transport
    assert isinstance(transport, httpx.ASGITransport)
    scope = {
        "type": "http",
        "http_version": "1.0",
        "method": "PUT",
        "path": "/v1/streams/half",
        "query_string": b"",
        "headers": [],
    }
    await transport.app(scope, receive, send)

    assert (sent, names(call.controller)) == ([], ["s"])
