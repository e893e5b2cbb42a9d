"""Answers of a schema registry, and their consequences."""

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from threading import Event
from time import sleep
from typing import Any

import pytest
from confluent_kafka import Message

from noted_time import NotedTimeError, NotObservable, Rejected, Unreachable
from noted_time_extensions.observe import registered_time, registry
from tests.support.loopback import Loopback, give
from tests.support.odd_controller import odd_controller
from tools.trials.waiting import PATIENCE_S

MESSAGE = Message(topic="flights", value=bytes([0, 0, 0, 0, 7]) + b"\x02" * 50_000)
LARGE = {"schema": " " * registry.ANSWER_CHARACTERS + '"long"'}


def record(name: str, kind: object, **more: object) -> dict[str, object]:
    """Return an Avro schema of records with a field `at`."""
    field = {"name": "at", "type": kind}
    return {"type": "record", "name": name, "fields": [field], **more}


def chain(levels: int) -> object:
    """Return a schema of nested records."""
    records = [record("R0", "long")]
    for level in range(1, levels):
        records.append(record(f"R{level}", f"R{level - 1}"))
    return records


def find_time(field: str, status: int, body: object) -> Any:  # noqa: ANN401 - as a record has
    """Find the time in a record whose schema a registry answers."""

    def answer(path: str) -> tuple[int, object]:
        if path == "/schemas/ids/7":
            return status, body
        return 200, b"<html>"

    with odd_controller(answer) as url:
        return registered_time(field, {"url": url, "max.retries": 0})(MESSAGE)


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (404, {"error_code": 40403, "message": "Schema 7 not found"}, Rejected, "Schema 7 not"),
        (404, {"error_code": 40401, "message": "no subject"}, Rejected, "no subject"),
        (404, b"<html>", Unreachable, "<html>"),
        (200, b"<html>", Unreachable, "JSONDecodeError"),
        (200, [], Unreachable, "TypeError"),
        (200, None, Unreachable, "AttributeError"),
        (200, LARGE, Unreachable, "of at most 32 MiB"),
        (
            200,
            {"schema": '"a.B"', "references": [{"subject": "b"}]},
            Unreachable,
            "JSONDecodeError",
        ),
        (503, b"", Unreachable, "503"),
        (401, {"error_code": 40101, "message": "no"}, NotObservable, "basic.auth.user.info="),
        (403, b"<html>", NotObservable, "basic.auth.user.info="),
    ],
)
def test_registry_answer_decides_about_the_record(
    status: int, body: object, kind: type[NotedTimeError], says: str
) -> None:
    """The record is skipped or read again, or the observer ends."""
    with pytest.raises(NotedTimeError, match=says) as error:
        find_time("at", status, body)

    assert type(error.value) is kind


@pytest.mark.parametrize("body", [{"at": 1}, {"schema": "<html>"}])
def test_registry_without_a_schema_is_asked_again(body: object) -> None:
    """The client may have cached the answer as a schema."""
    bodies = [body, {"schema": '"long"'}]
    with odd_controller(lambda _: (200, bodies.pop(0))) as url:
        get_time = registered_time("at", url)
        for kind, says in ((Unreachable, "no schema"), (Rejected, "there is no 'at'")):
            with pytest.raises(kind, match=says):
                get_time(MESSAGE)


def test_registry_that_answers_byte_by_byte_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is for the whole answer; the next connection may be quick."""
    monkeypatch.setattr(registry, "ANSWER_TIMEOUT_S", 2)
    body = json.dumps({"schema": json.dumps(record("A", "long"))}).encode()
    quick_event = Event()
    closed_event = Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        if quick_event.is_set():
            give(request, 200, b"", {"content-length": str(len(body))})
            request.wfile.write(body)
            return
        give(request, 200, b"", {"content-length": str(len(body) + 10**6)})
        with suppress(OSError):
            for _ in range(200):
                request.wfile.write(b" ")
                request.wfile.flush()
                sleep(0.05)
            return
        closed_event.set()

    with Loopback(answer) as server:
        get_time = registered_time("at", {"url": server.url, "max.retries": 0})
        with pytest.raises(Unreachable, match="gives no schema"):
            get_time(MESSAGE)
        assert closed_event.wait(PATIENCE_S)
        quick_event.set()

        assert get_time(MESSAGE) == [1]


@pytest.mark.parametrize(
    "schema",
    [
        record("Node", ["null", "Node"]),
        record(
            "Node", {"type": "array", "items": {"type": "map", "values": "a.Node"}}, namespace="a"
        ),
        chain(65),
    ],
)
def test_avro_schema_that_may_overflow_is_refused(schema: object) -> None:
    """Its records would crash the process."""
    with pytest.raises(Rejected, match=r"Avro schema 7 refers to itself or nests deeper than 64"):
        find_time("at", 200, {"schema": json.dumps(schema)})


@pytest.mark.parametrize("schema", [chain(64), record("a.Node", record("b.Node", "long"))])
def test_avro_schema_that_does_not_overflow_is_read(schema: object) -> None:
    """It has 64 levels, or two types of one name."""
    assert find_time("at.at", 200, {"schema": json.dumps(schema)}) == [1]
