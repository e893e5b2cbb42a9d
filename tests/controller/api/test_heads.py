from __future__ import annotations

import pytest

from controller.api import heads
from controller.api.heads import Head, Heads

HEAD = Head("s", "/v1/streams/s/notes", ((b"host", b"h"),), b"")
SENT = b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"


@pytest.fixture
def known() -> Heads:
    """Heads, of which one is known: of a body of two bytes."""
    made = Heads()
    made.learn(SENT + b"{}", HEAD, b"{}")
    return made


def test_a_head_that_is_known_is_found_with_another_body(known: Heads) -> None:
    """As long as that of the first, whatever is in it."""
    assert known.find(SENT + b"[]") == (HEAD, b"[]")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SENT,
        SENT[:-1],
        SENT + b"{",
        SENT + b"{}\r\n",
        SENT + b"{}" + SENT + b"{}",
        SENT.replace(b"Host: h", b"Host: i") + b"{}",
        b"\r\n\r\n" + SENT + b"{}",
        b"{}",
    ],
)
def test_anything_else_is_for_the_parser(known: Heads, data: bytes) -> None:
    """A part of a request, one and something more, another head."""
    assert known.find(data) is None


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (SENT + b"{}" + SENT + b"{}", b"{}"),
        (SENT.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"2\r\n{}", b"{}"),
        (b"\r\n\r\n" + SENT + b"{}", b"{}"),
        (SENT.replace(b"Host: h", b"Host: %b" % (b"h" * heads.LONGEST_HEAD)) + b"{}", b"{}"),
    ],
    ids=["two requests", "chunked", "after empty lines", "a long head"],
)
def test_what_is_not_a_head_and_its_body_is_not_learnt(data: bytes, body: bytes) -> None:
    """The body must be all that follows, as it stands."""
    made = Heads()
    made.learn(data, HEAD, body)

    assert made.find(data) is None


def test_however_many_heads_come_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound all are forgotten, and those in use are learnt again."""
    monkeypatch.setattr(heads, "MOST_HEADS", 10)
    made = Heads()
    for number in range(25):
        made.learn(SENT.replace(b"h\r", b"h%d\r" % number) + b"{}", HEAD, b"{}")

    assert len(made._known) == 5
