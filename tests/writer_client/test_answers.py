"""Only the controller's own refusals make a client drop a note; all else is tried again."""

import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from noted_time import InvalidNote, Rejected
from noted_time.client import Backoff
from noted_time.values import ClientFailed
from tests.writer_client.scripted import URL, Scripted, accepted, results
from writer_client import WriterClient

SOON = Backoff(first_s=0.001, cap_s=0.005)
PAGE = "<html>welcome to the hotel</html>"
OURS = "urn:noted-time:problem:"


def client_of(network: Scripted, **options: Any) -> WriterClient:  # noqa: ANN401 - its own
    """Return a client that does not wait long."""
    return WriterClient(URL, "s", "UA", backoff=SOON, transport=network, **options)


STRANGE: list[httpx.Response | dict[str, Any]] = [
    *(
        httpx.Response(status, html=PAGE, headers={"location": "http://x/"})
        for status in (204, 301, 302, 307, 400, 404, 405, 410, 413, 418, 422, 451)
    ),
    httpx.Response(404, json={"title": "Not Found", "type": "about:blank"}),
    httpx.Response(200, html=PAGE),
    httpx.Response(200, json=[]),
    {"results": None},
    results(),
    results(accepted(), accepted()),
    {"results": ["accepted"]},
    results({"status": "postponed", "last": 5}),
    results({"status": None}),
    results({"status": "invalid_time", "last": {"0": 5}}),
    results({"status": "invalid_time"}),
    results({"status": "invalid_position", "last": {"zero": 5}}),
    results({"status": "invalid_position", "last": 5}),
    results({"status": "not_vouched", "last": 5}),
    results({"status": "superseded", "last": True}),
    results({"status": "unknown_domain", "last": None}, domains="a"),
    results(accepted(lower="5")),
    results(accepted(position={"0": -1})),
    results(accepted(excluded={"reason": "timed_out"})),
    results(accepted(excluded="yes")),
]


@pytest.mark.parametrize("strange", STRANGE, ids=map(str, range(len(STRANGE))))
def test_foreign_answers_lose_no_note(
    strange: httpx.Response | dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again until it is answered, and logged once with what was seen."""
    network = Scripted(strange, strange, strange)
    with client_of(network) as client:
        client.note_time(5, {0: 10})
        client.flush()

    warnings = [record.getMessage() for record in caplog.records if record.levelno >= 30]
    assert ([note["time"] for note in network.notes], len(warnings)) == ([5, 5, 5, 5], 2)
    assert "no answer of a controller: status" in warnings[0]
    assert warnings[1].startswith(
        "writer 'UA' of stream 's': the controller responds again, after "
    )


@pytest.mark.parametrize(("status", "word"), [(422, "invalid_request"), (413, "too_large")])
def test_what_the_controller_refuses_is_not_tried_again(status: int, word: str) -> None:
    """The controller's own problem document refuses it; later notes arrive."""
    problem = {"type": f"{OURS}{word}", "title": "No", "detail": "not like that"}
    network = Scripted(httpx.Response(status, json=problem))
    with client_of(network) as client:
        client.note_time(5, {0: 10})
        with pytest.raises(Rejected, match=f"{status} No: not like that"):
            client.flush()
        client.note_time(6, {0: 10})
        client.flush()

    assert [note["time"] for note in network.notes] == [5, 6]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"status": "unknown_writer", "last": None}, "refused as unknown_writer: it never joined"),
        ({"status": "not_vouched", "last": ["a", "b"]}, "as not_vouched: it vouches for a, b; add"),
        ({"status": "unknown_domain", "last": None}, "as unknown_domain: the stream declares a, b"),
        ({"status": "too_many_writers", "last": 7}, "refused as too_many_writers: last is 7"),
    ],
)
def test_a_refusal_is_raised_logged_once_and_stops_nothing(
    result: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The next note is posted and accepted."""
    network = Scripted(*[results(result, domains=["a", "b"])] * 2)
    with client_of(network) as client:
        for time in (5, 6):
            client.note_time(time, {0: 10})
            with pytest.raises(InvalidNote) as raised:
                client.flush()
            assert said in str(raised.value)
        client.note_time(7, {0: 10})
        client.flush()

    logged = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert ([note["time"] for note in network.notes], len(logged)) == ([5, 6, 7], 1)


def test_a_controller_that_is_away_is_logged_once_and_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not each of many attempts."""
    network = Scripted(*[httpx.Response(503)] * 5)
    with client_of(network) as client:
        client.note_time(5, {0: 10})
        client.flush()

    logged = [(record.name, record.getMessage()) for record in caplog.records]
    away = (
        "writer 'UA' of stream 's': no response, retrying: the answer had status 503; "
        "what is noted is kept"
    )
    back = "writer 'UA' of stream 's': the controller responds again"
    assert [(name, message.partition(", after ")[0]) for name, message in logged] == [
        ("noted_time.writer", away),
        ("noted_time.writer", back),
    ]


def test_a_sender_that_died_is_an_error_of_every_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of our own must not look like success; its cause goes along."""
    fault = KeyError("a fault of ours")
    client = client_of(Scripted())

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(client._outbox, "answered", fail)
    client.note_time(5, {0: 10})
    calls: list[Callable[[], object]] = [
        client.flush,
        lambda: client.note_time(6, {0: 10}),
        client.join,
        client.idle,
        client.wrote,
        client.finish,
        client.close,
    ]
    causes = []
    for call in calls:
        with pytest.raises(ClientFailed, match="failed and no longer sends: KeyError") as up:
            call()
        causes.append(up.value.__cause__)

    assert causes == [fault] * len(calls)
    died = "writer 'UA' of stream 's': its sender failed"
    unsent = (
        f"writer 'UA' of stream 's': notes not delivered to {URL}: 1 (last time 5); "
        "the last error: 'a fault of ours'"
    )
    logged = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert logged == [("CRITICAL", died), ("WARNING", unsent)]
