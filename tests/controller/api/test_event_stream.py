"""Marks as server-sent events, from a server of its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from controller.api import event_stream
from controller.service.limits import Limits
from tests.support.gates import Guarded
from tests.support.served import Served
from tests.support.waiting import eventually

EVENTS = {"accept": "text/event-stream"}
Event = dict[str, Any]


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller with the stream `s`, which has one mark."""
    with Served() as served:
        served.create("s")
        served.note("s", 5, {"0": 10})
        yield served


@contextmanager
def listening(
    served: Served, query: str = "", stream: str = "s", **headers: str
) -> Iterator[httpx.Response]:
    """Open an event stream."""
    url = f"{served.url}/v1/streams/{stream}/marks{query}"
    shown = {**EVENTS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", url, headers=shown) as answer,
    ):
        yield answer


def events(answer: httpx.Response) -> Iterator[Event]:
    """Yield the events, their data decoded; a comment is an event of its own."""
    event: Event = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if not line:
            yield event
            event = {}
        else:
            event[name] = json.loads(value) if name == "data" else value


def marks(answer: httpx.Response, count: int) -> list[tuple[str, int]]:
    """Return (id, lower) of the next marks."""
    found = []
    for event in events(answer):
        if "id" in event:
            found.append((event["id"], event["data"]["lower"]))
        if len(found) == count:
            break
    return found


def test_marks_come_as_they_are_made(served: Served) -> None:
    """Existing ones and each further one; the first event names the stream."""
    with listening(served) as answer:
        coming = events(answer)
        first = [next(coming) for _ in range(3)]
        served.note("s", 7, {"0": 12})
        second = next(coming)

    stream_id = served.call("GET", "/s")["id"]
    old, new = served.call("GET", "/s/marks")["marks"]
    assert answer.headers["content-type"] == "text/event-stream"
    assert [*first, second] == [
        {"retry": "1000"},
        {"event": "stream", "data": {"stream_id": stream_id, "scale_events": 0, "corrections": 0}},
        {"id": "1", "data": old},
        {"id": "2", "data": new},
    ]


def test_a_client_that_reconnects_continues_after_the_last_id(served: Served) -> None:
    """Whatever the `after` of its URL, which was of the first time."""
    served.note("s", 7, {"0": 12})
    served.note("s", 9, {"0": 12})
    with listening(served, "?after=0", last_event_id="1") as answer:
        found = marks(answer, 2)

    assert found == [("2", 7), ("3", 9)]


def test_scale_events_are_sent(served: Served) -> None:
    """A reader reads the stream again then, to know what follows what."""
    with listening(served) as answer:
        coming = events(answer)
        before = [next(coming) for _ in range(3)][1]
        served.call("POST", "/s/scale", {"sealed": {"0": 12}, "created": {"1": [0]}})
        served.note("s", 7, {"1": 1})
        after = next(coming)

    assert [before["data"]["scale_events"], after["data"]["scale_events"]] == [0, 1]


@pytest.mark.parametrize("again", [False, True])
def test_events_end_when_the_stream_is_removed(served: Served, *, again: bool) -> None:
    """With the reason, also if another is created under its name at once."""
    with listening(served, "?after=1") as answer:
        coming = events(answer)
        next(coming)
        served.call("DELETE", "/s")
        if again:
            served.create("s")
        rest = list(coming)

    assert [(event["event"], event["data"].get("code")) for event in rest if "event" in event] == [
        ("stream", None),
        ("problem", "unknown_stream"),
    ]


def test_events_end_when_the_controller_stops() -> None:
    """It does not wait for its clients to disconnect."""
    with Served() as served:
        served.create("s")
        with listening(served) as answer:
            coming = events(answer)
            next(coming)
            served.stop()
            rest = list(coming)
        served.start()

    assert [event["event"] for event in rest if "data" in event] == ["stream"]


@pytest.mark.parametrize(
    ("where", "last_id", "refusal"),
    [
        (("", "nope"), "", (404, "unknown_stream")),
        (("?domain=nope", "s"), "", (404, "unknown_domain")),
        (("?atfer=1", "s"), "", (422, "invalid_request")),
        (("", "s"), "x", (422, "invalid_request")),
        (("?wait_ms=30001", "s"), "", (422, "invalid_request")),
    ],
)
def test_what_is_refused_is_a_problem_as_ever(
    served: Served, where: tuple[str, str], last_id: str, refusal: tuple[int, str]
) -> None:
    """A client of events learns by the status that connecting again is in vain."""
    with listening(served, *where, last_event_id=last_id) as answer:
        problem = json.loads(answer.read())

    assert (answer.status_code, problem["code"]) == refusal
    assert answer.headers["content-type"] == "application/problem+json"


def test_other_media_types_are_answered_as_ever(served: Served) -> None:
    """Only callers that ask for events get them."""
    with listening(served, accept="application/json, */*") as answer:
        found = json.loads(answer.read())

    assert [mark["seq"] for mark in found["marks"]] == [1]


def test_a_silent_stream_is_kept_open(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then, which clients ignore and proxies count."""
    monkeypatch.setattr(event_stream, "WAIT_MS", 10)
    with listening(served, "?after=1") as answer:
        coming = events(answer)
        found = [next(coming) for _ in range(4)][2:]

    assert found == [{"": "ping"}] * 2


def test_there_are_no_more_event_streams_than_long_polls() -> None:
    """The next is asked to come back later, and is admitted once another disconnects."""
    with Served(limits=Limits(long_polls=1)) as served:
        served.create("s")
        with listening(served) as first, listening(served) as second:
            next(events(first))
            crowded = json.loads(second.read())["code"]

        def status() -> int:
            with listening(served) as answer:
                return answer.status_code

        assert crowded == "overloaded"
        assert eventually(status, 200)


def test_a_token_that_is_revoked_ends_the_events() -> None:
    """At the next poll, though the stream was opened before."""
    guarded = Guarded()
    admin = guarded.token("admin")
    reads = guarded.token("read")
    with Served(gate=guarded.gate) as served:
        httpx.put(
            f"{served.url}/v1/streams/s",
            json={"mark_interval_ms": 0},
            headers={"authorization": f"Bearer {admin}"},
            trust_env=False,
        ).raise_for_status()
        with listening(served, authorization=f"Bearer {reads}") as answer:
            coming = events(answer)
            next(coming)
            guarded.revoke(reads)
            httpx.post(
                f"{served.url}/v1/streams/s/notes",
                json={"notes": [{"writer": "w", "time": 5}]},
                headers={"authorization": f"Bearer {admin}"},
                trust_env=False,
            )
            rest = list(coming)

    assert [event["data"].get("code") for event in rest if event.get("event") == "problem"] == [
        "unauthenticated"
    ]
