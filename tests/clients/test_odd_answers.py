"""An answer whose fields have other types is refused by field and value."""

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from noted_time import Mark, NotedTimeError, StreamCut, UnexpectedAnswer
from noted_time.answers import MarksAnswer
from noted_time.client import Question, Reply
from noted_time.client.transport import Transport
from noted_time.verdict import Requirement
from reader_client import ReaderClient
from reader_client.protocol.answers import StreamReply
from reader_client.protocol.questions import ask_completeness
from tests.cli.conftest import Commands
from tests.reader_client.answers import MARKS, STREAM
from tests.support.odd_controller import odd_controller
from writer_client.sending.answers import decode_reply

PROBLEM = "urn:noted-time:problem:not_complete_yet"
MARK = {"seq": 1, "lower": 5, "upper": 5, "cut": {"0": 7}, "written_at": 1, "excluded": []}
PATH = "/v1/streams/s"
OK_STATUS = 200
ODD = ["1357034220000", 1357034220000.5, {}, [], True, 10**30]


def read(url: str) -> None:
    with ReaderClient("s", controller=url, wait_ms=100) as client:
        client.wait_for(1357034220000, timeout=0.2)


def sense(url: str) -> None:
    with closing(Transport(url)) as transport:
        transport.ask(ask_completeness("s", Requirement(to=1357034220000)))


def command(*words: str) -> Callable[[str], None]:
    """Return a function that raises the message of a failed command."""

    def ask(url: str) -> None:
        result = Commands(url)(*words)
        if result.status:
            raise UnexpectedAnswer(result.out + result.err)

    return ask


WAIT = command("wait", "s", "7", "--timeout", "0s")
ASKS = [read, sense, command("complete-to", "s"), WAIT, command("doctor", "s")]
"""Calls that ask for a time."""


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize(
    ("status", "kind", "body", "path"),
    [
        (200, MarksAnswer, MARKS | {"marks": [MARK, MARK | {"lower": 0}]}, "$.marks[1].lower"),
        (200, StreamReply, STREAM | {"marks": {"ship": MARK | {"lower": 0}}}, "$.marks[...].lower"),
        (404, MarksAnswer, {"type": PROBLEM, "complete_to": 5, "lower": 0}, "$.lower"),
    ],
)
def test_a_time_that_is_not_an_int64_is_refused(
    status: int, kind: type[object], body: dict[str, Any], path: str, odd: object
) -> None:
    """A gateway writes int64 as text; the sentence names the field."""
    content = json.dumps(body).replace('"lower": 0', f'"lower": {json.dumps(odd)}').encode()

    with pytest.raises(UnexpectedAnswer) as refusal:
        Reply(status, {}, content).read(Question("GET", PATH, answer=kind))

    assert refusal.value.why.startswith("Expected `int")
    assert refusal.value.why.endswith(f" - at `{path}`")


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("result", [{"status": "accepted"}, {"status": "invalid_time"}])
@pytest.mark.parametrize("status", [200, 422])
def test_note_result_with_an_odd_time_is_refused(
    status: int, result: dict[str, Any], odd: object
) -> None:
    refusal = {"type": "urn:noted-time:problem:notes_refused"} if status != OK_STATUS else {}
    answer = refusal | {"results": [result | {"lower": odd, "last": odd}]}

    with pytest.raises(UnexpectedAnswer, match="Expected `int"):
        decode_reply(Reply(status, {}, json.dumps(answer).encode()), 1, "s")


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        (MarksAnswer, MARKS | {"marks": [MARK | {"cut": {"0": "7"}}]}, "$.marks[0].cut"),
        (MarksAnswer, MARKS | {"marks": [MARK | {"cut": {"0": 7.0}}]}, "$.marks[0].cut"),
        (MarksAnswer, MARKS | {"marks": [MARK | {"cut": {"0": -7}}]}, "$.marks[0].cut"),
        (MarksAnswer, MARKS | {"marks": [MARK | {"upper_is_bound": 1}]}, "upper_is_bound"),
        (MarksAnswer, MARKS | {"marks": [MARK | {"excluded": [5]}]}, "$.marks[0].excluded[0]"),
        (MarksAnswer, {"stream_id": "a", "marks": []}, "missing required field `scale_events`"),
        (StreamReply, STREAM | {"domains": "UA"}, "Expected `array`, got `str` - at `$.domains`"),
        (StreamReply, [], "Expected `object`, got `array`"),
    ],
)
def test_any_other_odd_field_is_refused(kind: type[object], body: object, why: str) -> None:
    """Offsets, flags, names and lists are checked as strictly as times."""
    with pytest.raises(UnexpectedAnswer) as refusal:
        Reply(200, {}, json.dumps(body).encode()).read(Question("GET", PATH, answer=kind))

    assert why in refusal.value.why


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"new":' * 100_000, b"{", b"\xff", b'"\xff"']
)
def test_an_answer_that_is_not_json_is_unexpected(content: bytes) -> None:
    """Deep lists need more stack than there is."""
    with pytest.raises(UnexpectedAnswer):
        Reply(200, {}, content).read(Question("GET", PATH, answer=StreamReply))


def test_domain_named_like_a_field_and_new_fields_pass() -> None:
    """A newer controller may add fields."""
    marks = {"lower": MARK | {"new": {"lower": "?"}}, "marks": None}
    content = json.dumps(STREAM | {"marks": marks, "seal": None, "later": [[{}]]}).encode()
    stream_reply = Reply(200, {}, content).read(Question("GET", PATH, answer=StreamReply))

    assert stream_reply.marks == {"lower": Mark(1, 5, 5, StreamCut({0: 7}), 1), "marks": None}


def test_gateway_status_decides_the_error() -> None:
    """A gateway's own document may have fields of these names."""
    body = json.dumps({"time": "Tue, 01 Jan 2013", "status": "busy"}).encode()
    errors = []
    for status in (401, 503):
        try:
            Reply(status, {"retry-after": "2"}, body).read(Question("GET", PATH))
        except Exception as error:  # noqa: BLE001 - which one is asserted
            errors.append(type(error).__name__)

    assert errors == ["NotAllowed", "Unreachable"]


@pytest.mark.parametrize("ask", ASKS, ids=["reader", "sensor", "complete-to", "wait", "doctor"])
def test_malformed_time_ends_every_wait(ask: Callable[[str], None]) -> None:
    """`x in range(…)` would take 7 * 10^12 steps for a string, past every timeout."""
    problem = 404, {"type": PROBLEM, "complete_to": 7, "lower": "1357034220000"}

    def answers(path: str) -> tuple[int, Any]:
        return (200, {}) if path == "/readyz" else problem

    with (
        odd_controller(answers) as url,
        pytest.raises(NotedTimeError, match=r"Expected `int \| null`, got `str` - at `\$\.lower`"),
    ):
        ask(url)
