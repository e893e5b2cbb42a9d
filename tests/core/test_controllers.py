from collections.abc import Callable
from typing import Any

import pytest

from noted_time.client import Controllers, Question, Reply, ask_in_turn, run
from noted_time.values import Rejected, UnknownStream, Unreachable


def asked_in_turn(controllers: Controllers, call: Callable[[str], Reply]) -> str:
    """Ask a question about a stream, which `call` answers; returns the URL of what answered."""
    routine = ask_in_turn(
        controllers, lambda: Question("GET", "/v1/streams/s"), lambda reply: reply.headers["url"]
    )
    return run(routine, lambda asked: call(asked.url))


def away(url: str) -> Reply:
    """Fail as a controller that does not answer."""
    raise Unreachable(url)


def test_the_one_that_answered_is_asked_again() -> None:
    """A client stays with a controller while that answers."""
    controllers = Controllers("http://a,http://b")
    asked: list[str] = []

    def only_b(url: str) -> Reply:
        asked.append(url)
        return away(url) if url == "http://a" else Reply(200, {"url": url}, b"{}")

    asked_in_turn(controllers, only_b)
    asked_in_turn(controllers, only_b)

    assert asked == ["http://a", "http://b", "http://b"]


def test_all_are_asked_once_before_it_fails() -> None:
    """When no controller answers, the caller's own backoff decides when to start another round."""
    controllers = Controllers("http://a,http://b")

    with pytest.raises(Unreachable, match="http://b"):
        asked_in_turn(controllers, away)

    assert controllers.current == "http://a"


def test_a_refusal_is_an_answer() -> None:
    """Another controller of the same database would refuse it as well."""
    controllers = Controllers("http://a,http://b")

    def refuse(url: str) -> Reply:
        raise UnknownStream(url)

    with pytest.raises(UnknownStream, match="http://a"):
        asked_in_turn(controllers, refuse)

    assert controllers.current == "http://a"


@pytest.mark.parametrize("urls", [None, b"http://a:7464", ["http://a:7464"]])
def test_a_url_is_text(urls: Any) -> None:  # noqa: ANN401 - what a caller may give by mistake
    """For example an environment variable that is not set: the error says so."""
    with pytest.raises(Rejected, match="the URL of a controller is text"):
        Controllers(urls)


@pytest.mark.parametrize("urls", ["", " , "])
def test_somebody_must_be_named(urls: str) -> None:
    """An empty list of URLs is reported at once."""
    with pytest.raises(Rejected, match="not the URL"):
        Controllers(urls)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("127.0.0.1:7464", "http://127.0.0.1:7464"),
        ("controller.example", "http://controller.example"),
        ("ftp://a", "http://a"),
        ("http://a,b:7464", "http://b:7464"),
        ("http://a/v1", "use http://a$"),
        ("https://a/v1/", "use https://a$"),
    ],
)
def test_an_invalid_controller_url_is_refused_with_the_remedy(url: str, remedy: str) -> None:
    """At once, and not as a controller that does not answer."""
    with pytest.raises(Rejected, match=remedy):
        Controllers(url)


@pytest.mark.parametrize("url", ["http://ops:secret@a:7464", "ops:secret@a:7464", "http://t@a/v1"])
def test_a_url_with_a_user_is_refused_and_not_repeated(url: str) -> None:
    """What is refused is logged, and a password belongs into no log."""
    with pytest.raises(Rejected) as refused:
        Controllers(f"http://b:7464,{url}")

    message = "the URL of a controller cannot have a user or password: remove the part before the @"
    assert str(refused.value) == message
