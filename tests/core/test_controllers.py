"""How clients choose a controller and interpret unsuccessful answers."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.client import Backoff, Controllers, Question, Reply, ask_in_turn, run
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


def ask_controllers(controllers: Controllers, call: Callable[[str], Reply]) -> str:
    """Ask a question about a stream, and return the URL that answered."""
    routine = ask_in_turn(
        controllers, lambda: Question("GET", "/v1/streams/s"), lambda reply: reply.headers["url"]
    )
    return run(routine, lambda asked: call(asked.url))


def away(url: str) -> Reply:
    raise Unreachable(url)


def test_controller_that_answered_is_asked_again() -> None:
    controllers = Controllers("http://a,http://b")
    asked: list[str] = []

    def only_b(url: str) -> Reply:
        asked.append(url)
        return away(url) if url == "http://a" else Reply(200, {"url": url}, b"{}")

    ask_controllers(controllers, only_b)
    ask_controllers(controllers, only_b)

    assert asked == ["http://a", "http://b", "http://b"]


def test_all_controllers_are_asked_once_before_failure() -> None:
    """When no controller answers, the caller's own backoff decides when to start another round."""
    controllers = Controllers("http://a,http://b")

    with pytest.raises(Unreachable, match="http://b"):
        ask_controllers(controllers, away)

    assert controllers.current == "http://a"


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
        *((each, "the URL of a controller is text") for each in (None, b"http://a", ["http://a"])),
        *((each, "not the URL") for each in ("", " , ")),
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
    with pytest.raises(Rejected) as refused:
        Controllers(f"http://b:7464,{url}")

    message = "the URL of a controller cannot have a user or password: remove the part before the @"
    assert str(refused.value) == message


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
    asked = min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)

    delay = backoff.delay_s(failures, chance=chance, retry_after_s=retry_after_s)
    assert asked + 0.05 <= delay <= asked + 5.0


def test_a_refused_token_comes_with_the_remedy() -> None:
    """The client says where it takes its token from, since it knows."""
    problem = {"title": "Unauthenticated", "detail": "missing, expired or revoked token"}

    assert str(error_of(401, problem, stream="flights")) == (
        "401 Unauthenticated: missing, expired or revoked token; "
        "pass --token (token= in Python), or set NOTED_TIME_TOKEN"
    )
