"""How clients choose a controller and interpret unsuccessful answers."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.client import (
    AddressedQuestion,
    Backoff,
    Controllers,
    ForeignAnswer,
    Question,
    Reply,
    ask,
    ask_in_turn,
    run,
)
from noted_time.client.problems import error_of
from noted_time.client.retrying import LONGEST_RETRY_AFTER_S
from noted_time.values import (
    Conflict,
    NotAllowed,
    NotCompleteYet,
    NotedMeanwhile,
    NotedTimeError,
    Rejected,
    UnexpectedAnswer,
    UnknownDomain,
    UnknownStream,
    Unreachable,
)
from noted_time.verdict import Requirement
from reader_client.protocol.questions import ask_completeness


def ask_controllers(controllers: Controllers, call: Callable[[str], Reply]) -> str:
    """Ask a question about a stream, and return the URL that answered."""

    def perform(question: AddressedQuestion) -> Reply:
        return call(question.url)

    return run(ask_in_turn(controllers, ask_for_stream, read_url), perform)


def ask_for_stream() -> Question[Any]:
    return Question("GET", "/v1/streams/s")


def read_url(reply: Reply) -> str:
    return reply.headers["url"]


def away(url: str) -> Reply:
    raise Unreachable(url)


def test_controller_that_answered_is_asked_again() -> None:
    controllers = Controllers("http://a,http://b")
    urls: list[str] = []

    def only_b(url: str) -> Reply:
        urls.append(url)
        return away(url) if url == "http://a" else Reply(200, {"url": url}, b"{}")

    ask_controllers(controllers, only_b)
    ask_controllers(controllers, only_b)

    assert urls == ["http://a", "http://b", "http://b"]


def test_all_controllers_are_asked_once_before_failure() -> None:
    """When no controller answers, the caller's own backoff decides when to start another round."""
    controllers = Controllers("http://a,http://b")

    with pytest.raises(Unreachable, match="http://b"):
        ask_controllers(controllers, away)

    assert controllers.current == "http://a"


def reply_with(request_id: str, *, status: int = 200) -> Reply:
    return Reply(status, {"noted-request": request_id}, b"{}")


def list_attempts(question: Question[Any], reply_to: Callable[[str, str], Reply]) -> list[str]:
    """Ask two controllers, and return the URLs asked until an answer or a foreign answer.

    `reply_to` takes the URL and the id of a request. Each id must be new.
    """
    urls = list[str]()
    ids = list[str]()

    def perform(question: AddressedQuestion) -> Reply:
        urls.append(question.url)
        ids.append(question.request_id)
        return reply_to(question.url, question.request_id)

    with suppress(ForeignAnswer):
        run(ask(Controllers("http://a,http://b"), question), perform)
    assert len({*ids}) == len(ids)
    for request_id in ids:
        assert re.fullmatch("[0-9a-f]{16}", request_id)
    return urls


def name_request(question: Question[Any]) -> str:
    return f"{question.method} {question.path}"


QUESTIONS: list[Question[Any]] = [
    Question("GET", "/v1/streams/s"),
    Question("PUT", "/v1/streams/s"),
    Question("POST", "/v1/streams/s/notes"),
    Question("POST", "/v1/streams/s/completeness"),
    Question("POST", "/v1/streams/s/time-window"),
    Question("POST", "/v1/streams/s/segment-times"),
]
CHANGES: list[Question[Any]] = [
    Question("DELETE", "/v1/streams/s"),
    Question("DELETE", "/v1/streams/s/writers/notes"),
    Question("POST", "/v1/streams/s/seal"),
    Question("POST", "/v1/streams/s/scale"),
    Question("POST", "/v1/streams/s/truncate"),
]


@pytest.mark.parametrize("question", QUESTIONS + CHANGES, ids=name_request)
@pytest.mark.parametrize("status", [200, 201])
def test_answer_with_the_id_of_its_request_is_taken(question: Question[Any], status: int) -> None:

    def reply_to(_: str, request_id: str) -> Reply:
        return reply_with(request_id, status=status)

    assert list_attempts(question, reply_to) == ["http://a"]


def give_foreign_answers(status: int) -> Callable[[str, str], Reply]:
    def reply_to(_: str, __: str) -> Reply:
        return reply_with("0" * 16, status=status)

    return reply_to


@pytest.mark.parametrize("question", QUESTIONS, ids=name_request)
@pytest.mark.parametrize("status", [200, 204, 404, 503])
def test_question_with_foreign_answers_is_asked_again(question: Question[Any], status: int) -> None:
    """Each controller is asked three times, then the next one."""

    def reply_to(url: str, request_id: str) -> Reply:
        return reply_with("0" * 16 if url == "http://a" else request_id, status=200)

    always = list_attempts(question, give_foreign_answers(status))

    assert list_attempts(question, reply_to) == ["http://a"] * 3 + ["http://b"]
    assert always == ["http://a"] * 3 + ["http://b"] * 3


@pytest.mark.parametrize("question", CHANGES, ids=name_request)
@pytest.mark.parametrize("status", [200, 204, 409])
def test_change_with_foreign_answer_is_not_repeated(question: Question[Any], status: int) -> None:
    """Another controller is not asked either."""
    attempts = list_attempts(question, give_foreign_answers(status))

    assert attempts == ["http://a"]


def test_foreign_answer_names_no_owner() -> None:
    """The owner is of the stream in the other request."""
    controllers = Controllers("http://a,http://b")
    headers = {"noted-time-owner": "http://b"}
    foreign = Reply(200, {"noted-request": "0" * 16, **headers}, b"{}")
    question: Question[Any] = Question("GET", "/v1/streams/s")
    asking = ask(controllers, question)
    next(asking)
    second_reply = asking.send(foreign)

    assert second_reply.url == controllers.current == "http://a"


COMPLETE = {"lacks": [], "sentence": "", "remedy": "", "status": "complete"}


@pytest.mark.parametrize(
    ("asked", "answer", "is_taken"),
    [
        (Requirement(to=20), COMPLETE | {"complete_to": 19}, False),
        (Requirement(to=20), COMPLETE | {"complete_to": 20}, True),
        (Requirement(to=20), COMPLETE | {"complete_to": None}, True),
        (Requirement(to=20), COMPLETE | {"complete_to": 19, "sealed": True}, True),
        (Requirement(to=20), COMPLETE | {"complete_to": 19, "status": "waiting"}, True),
        (Requirement(to=20, floor_ms=10), COMPLETE | {"complete_to": 20}, True),
        (Requirement(to=29, floor_ms=10), COMPLETE | {"complete_to": 20}, True),
        (Requirement(to=30, floor_ms=10), COMPLETE | {"complete_to": 20}, False),
        (Requirement(), COMPLETE | {"complete_to": 19}, True),
    ],
)
@pytest.mark.parametrize("has_id", [False, True])
def test_answer_without_id_must_reach_the_time(
    asked: Requirement, answer: dict[str, Any], *, is_taken: bool, has_id: bool
) -> None:
    """An older controller has none, or a proxy drops it. With the id, the answer is taken."""
    content = json.dumps(answer).encode()

    def perform(question: AddressedQuestion) -> Reply:
        return Reply(200, {"noted-request": question.request_id} if has_id else {}, content)

    with nullcontext() if is_taken or has_id else pytest.raises(ForeignAnswer):
        completeness = run(ask(Controllers("http://a"), ask_completeness("s", asked)), perform)
        assert completeness.complete_to == answer["complete_to"]


def test_a_refusal_is_an_answer() -> None:
    """Another controller of the same database would refuse it as well."""
    controllers = Controllers("http://a,http://b")

    def refuse(url: str) -> Reply:
        raise UnknownStream(url)

    with pytest.raises(UnknownStream, match="http://a"):
        ask_controllers(controllers, refuse)

    assert controllers.current == "http://a"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "the URL of a controller is text"),
        (b"http://a", "the URL of a controller is text"),
        (["http://a"], "the URL of a controller is text"),
        ("", "not the URL"),
        (" , ", "not the URL"),
        ("controller.example", "http://controller.example"),
        ("http://a,b:7464", "http://b:7464"),
        ("https://a/v1/", "use https://a$"),
    ],
)
def test_an_invalid_controller_url_is_refused_with_the_remedy(url: Any, says: str) -> None:  # noqa: ANN401
    """It may be an environment variable that is not set."""
    with pytest.raises(Rejected, match=says):
        Controllers(url)


@pytest.mark.parametrize("url", ["http://ops:secret@a:7464", "ops:secret@a:7464", "http://t@a/v1"])
def test_a_url_with_a_user_is_refused_and_not_repeated(url: str) -> None:
    """Refused URLs are logged, and no log may contain a password."""
    with pytest.raises(Rejected) as refusal:
        Controllers(f"http://b:7464,{url}")

    message = "the URL of a controller cannot have a user or password: remove the part before the @"
    assert str(refusal.value) == message


URN = "urn:noted-time:problem:"


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (301, {}, UnexpectedAnswer),
        (400, {}, UnexpectedAnswer),
        (400, {"type": URN + "malformed_json"}, Rejected),
        (401, {}, NotAllowed),
        (403, {"title": "Forbidden"}, NotAllowed),
        (404, {"type": URN + "unknown_stream"}, UnknownStream),
        (404, {"type": URN + "not_complete_yet", "complete_to": 9, "lower": None}, NotCompleteYet),
        (404, {"type": "about:blank"}, UnexpectedAnswer),
        (405, {}, UnexpectedAnswer),
        (408, {}, Unreachable),
        (409, {"type": URN + "conflict"}, Conflict),
        (409, {"type": URN + "noted_meanwhile", "writer": "w", "noted_at": 5}, NotedMeanwhile),
        (413, {"title": "too large"}, UnexpectedAnswer),
        (422, {"type": URN + "unknown_domain", "domain": "k", "domains": ["d"]}, UnknownDomain),
        (429, {}, Unreachable),
        (500, {"type": URN + "unknown_stream"}, Unreachable),
        (503, {"type": URN + "unavailable"}, Unreachable),
    ],
)
def test_status_determines_the_next_step(
    status: int, problem: dict[str, Any], kind: type[NotedTimeError]
) -> None:
    assert type(error_of(status, problem, stream="flights")) is kind


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e9))
def test_delay_is_within_bounds(failures: int, chance: float, retry_after_s: float | None) -> None:
    backoff = Backoff(first_s=0.1, cap_s=5.0)
    requested_delay = min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)

    delay = backoff.delay_s(failures, chance=chance, retry_after_s=retry_after_s)
    assert requested_delay + 0.05 <= delay <= requested_delay + 5.0


def test_a_refused_token_comes_with_the_remedy() -> None:
    """The client says where it takes its token from, since it knows."""
    problem = {"title": "Unauthenticated", "detail": "missing, expired or revoked token"}

    assert str(error_of(401, problem, stream="flights")) == (
        "401 Unauthenticated: missing, expired or revoked token; "
        "pass --token (token= in Python), or set NOTED_TIME_TOKEN"
    )
