from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.http import problem

if TYPE_CHECKING:
    from tests.support.http import Caller

pytestmark = pytest.mark.anyio

S = "/v1/streams/s"
OVER = 2**63
INTEGER = "Input should be a valid integer"
STRING = "Input should be a valid string"
AT_MOST = "Input should be less than or equal to 9223372036854775807"
AT_LEAST = "Input should be greater than or equal to"
STATE = "Input should be 'live', 'idle' or 'finished'"
NO_SUCH = "there is no such field"
FIELDS = (
    "writer, time, position, domain, max_time, max_times, state, domains, timeout_ms, late, "
    "sequence, session, takes_over, label"
)
NAME = "must be 1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
SESSION = "must be 1 to 64 characters of A-Z a-z 0-9 . _ -"
LINE = "must be one line, without control characters and bidirectional overrides"
SEGMENT = "must name a segment: a decimal integer below 10^18"


BAD_NOTES = {
    '{"writer": "a", "position": {"7": -1}}': f"position.7: {AT_LEAST} 0, not -1",
    f'{{"writer": "a", "position": {{"7": {OVER}}}}}': f"position.7: {AT_MOST}, not {OVER}",
    '{"writer": "a", "position": {"7": true}}': f"position.7: {INTEGER}, not true",
    '{"writer": "a", "position": {"7": "5"}}': f'position.7: {INTEGER}, not "5"',
    '{"writer": "a", "position": {"7": 5.0}}': f"position.7: {INTEGER}, not 5.0",
    '{"writer": "a", "position": {"x": 1}}': f"position.x: {SEGMENT}",
    '{"writer": "a", "position": {"-1": 1}}': f"position.-1: {SEGMENT}",
    '{"writer": "a", "position": {"00": 1}}': f"position.00: {SEGMENT}",
    '{"writer": "a", "position": {"1000000000000000000": 1}}': (
        f"position.1000000000000000000: {SEGMENT}"
    ),
    '{"writer": "a", "position": [1]}': "position: Input should be an object, not [1]",
    f'{{"writer": "a", "time": {OVER}}}': f"time: {AT_MOST}, not {OVER}",
    f'{{"writer": "a", "time": {-OVER - 1}}}': (
        f"time: {AT_LEAST} {-OVER}, not -9223372036854775809"
    ),
    '{"writer": "a", "time": true}': f"time: {INTEGER}, not true",
    '{"writer": "a", "time": "5"}': f'time: {INTEGER}, not "5"',
    '{"writer": "a", "max_time": 1.5}': f"max_time: {INTEGER}, not 1.5",
    '{"writer": "a", "max_times": {"default": 1.5}}': (f"max_times.default: {INTEGER}, not 1.5"),
    '{"writer": "a b"}': f'writer: {NAME}, not "a b"',
    '{"writer": "a\\n"}': f'writer: {NAME}, not "a\\n"',
    '{"writer": "Zoë"}': f'writer: {NAME}, not "Zoë"',
    '{"writer": ""}': f'writer: {NAME}, not ""',
    f'{{"writer": "{"a" * 250}"}}': f'writer: {NAME}, not "{"a" * 39}…',
    '{"writer": 5}': f"writer: {STRING}, not 5",
    '{"writer": null}': f"writer: {STRING}, not null",
    '{"time": 5}': "writer: Field required",
    '{"writer": "a", "domain": "a b"}': f'domain: {NAME}, not "a b"',
    '{"writer": "a", "domain": ""}': f'domain: {NAME}, not ""',
    '{"writer": "a", "state": "dead"}': f'state: {STATE}, not "dead"',
    '{"writer": "a", "session": "a b"}': f'session: {SESSION}, not "a b"',
    f'{{"writer": "a", "session": "{"a" * 65}"}}': f'session: {SESSION}, not "{"a" * 39}…',
    '{"writer": "a", "takes_over": 1}': "takes_over: Input should be a valid boolean, not 1",
    '{"writer": "a", "label": "a\\n"}': f'label: {LINE}, not "a\\n"',
    '{"writer": "a", "label": "\u202eb"}': f'label: {LINE}, not "\u202eb"',
    '{"writer": "a", "sequence": 0}': f"sequence: {AT_LEAST} 1, not 0",
    f'{{"writer": "a", "sequence": {OVER}}}': f"sequence: {AT_MOST}, not {OVER}",
    '{"writer": "a", "sequence": "1"}': f'sequence: {INTEGER}, not "1"',
    '{"writer": "a", "state": ["live"]}': f'state: {STATE}, not ["live"]',
    '{"writer": "a", "timeout_ms": 0}': f"timeout_ms: {AT_LEAST} 1, not 0",
    '{"writer": "a", "domains": []}': (
        "domains: List should have at least 1 item after validation, not 0"
    ),
    '{"writer": ".."}': f'writer: {NAME}, not ".."',
    '{"writer": "a", "late": {"rows": 0, "least": 1}}': f"late.rows: {AT_LEAST} 1, not 0",
    '{"writer": "a", "tiem": 5}': f"tiem: {NO_SUCH}; did you mean 'time'? There are: {FIELDS}",
}


@pytest.mark.parametrize(("note", "says"), BAD_NOTES.items())
async def test_a_note_that_does_not_fit_is_named(call: Caller, note: str, says: str) -> None:
    """The error says which note, which field or segment, and what it must be."""
    body = f'{{"notes": [{{"writer": "fine", "time": 1}}, {note}]}}'
    answer = await call.send("POST", f"{S}/notes", body.encode())

    assert problem(answer) == (422, "invalid_request", f"body.notes.1.{says}")


async def test_a_request_with_a_note_that_does_not_fit_changes_nothing(call: Caller) -> None:
    """No note of it was taken, so it can be sent again, put right."""
    await call.post(f"{S}/notes", {"notes": [{"writer": "a", "time": 9}, {"writer": "b b"}]})

    assert await call.note({"writer": "a", "time": 1}) == [{"status": "accepted", "lower": 1}]


async def test_a_refused_note_does_not_take_others_with_it(call: Caller) -> None:
    """What regresses or names an unknown domain is told; the rest of the request is durable."""
    await call.note({"writer": "a", "time": 5, "position": {"0": 5}})
    results = await call.note(
        {"writer": "a", "time": 4},
        {"writer": "a", "position": {"0": 4, "1": 4}},
        {"writer": "a", "time": 8, "domain": "nope"},
        {"writer": "a", "time": 6},
    )

    assert results == [
        {"status": "invalid_time", "last": 5},
        {"status": "invalid_position", "last": {"0": 5}},
        {"status": "unknown_domain", "last": None},
        {"status": "accepted", "lower": 6},
    ]


BAD_BODIES: dict[bytes, tuple[int, str, str]] = {
    b"": (400, "malformed_json", "body: Input data was truncated"),
    b'{"notes": [': (400, "malformed_json", "body: Input data was truncated"),
    b"nonsense": (400, "malformed_json", "body: JSON is malformed: invalid character (byte 4)"),
    b'{"notes": [{"writer": "\xff"}]}': (
        400,
        "malformed_json",
        "body: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
    b"[]": (422, "invalid_request", "body: Input should be an object, not []"),
    b"{}": (422, "invalid_request", "body.notes: Field required"),
    b'{"notes": 5}': (422, "invalid_request", "body.notes: Input should be a valid array, not 5"),
    b'{"notes": []}': (
        422,
        "invalid_request",
        "body.notes: List should have at least 1 item after validation, not 0",
    ),
    b'{"notes": [5]}': (422, "invalid_request", "body.notes.0: Input should be an object, not 5"),
    b'{"notes": [%s]}' % b",".join([b'{"writer":"a"}'] * 1001): (
        422,
        "invalid_request",
        "body.notes: List should have at most 1000 items after validation, not 1001",
    ),
    b'{"notes": [{"writer": "a"}], "more": 1}': (
        422,
        "invalid_request",
        f"body.more: {NO_SUCH}; there are: notes",
    ),
}


@pytest.mark.parametrize(("body", "told"), BAD_BODIES.items())
async def test_a_body_of_notes_that_does_not_fit_is_explained(
    call: Caller, body: bytes, told: tuple[int, str, str]
) -> None:
    """400 where it is no JSON, 422 with the place where it is not notes."""
    answer = await call.send("POST", f"{S}/notes", body)

    assert problem(answer) == told


@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 100_000, b'{"notes":' + b"[" * 100_000])
async def test_deep_nesting_breaks_nothing(call: Caller, body: bytes) -> None:
    """It is refused like any other nonsense."""
    answer = await call.send("POST", f"{S}/notes", body)

    assert problem(answer)[:2] == (422, "invalid_request")


@pytest.mark.parametrize(
    "value", ["1" + "0" * 30, "-" + "9" * 400, "1e400", "NaN", '{"a":[1e999]}', '"\\ud800"']
)
async def test_no_number_or_text_breaks_the_answer(call: Caller, value: str) -> None:
    """Whatever does not fit is repeated in brief, or excluded where it cannot be."""
    body = f'{{"notes":[{{"writer":"a","time":{value}}}]}}'
    answer = await call.send("POST", f"{S}/notes", body.encode())

    assert answer.status_code in {400, 422}
    assert len(problem(answer)[2]) < 200


async def test_ten_faults_of_a_body_are_told_at_once(call: Caller) -> None:
    """Enough to put it right, not so many that the answer is as large as the request."""
    answer = await call.post(f"{S}/notes", {"notes": [{"writer": "a b", "time": "x"}] * 20})

    assert len(answer.json()["errors"]) == 10
