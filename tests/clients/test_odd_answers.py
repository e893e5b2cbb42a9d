"""An answer whose fields have other types is refused at the border, by field and value."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from controller.api.app import create_api
from controller.service.controller import Controller
from noted_time import NotedTimeError, UnexpectedAnswer
from noted_time.client import Reply, run
from noted_time.client.decoding import find_field_types
from noted_time.client.transport import Transport
from noted_time_airflow.waiting import Wanted, look_at_stream
from reader_client import ReaderClient
from tests.cli.conftest import Commands
from tests.support.memory_store import MemoryStore
from tests.support.odd_controller import odd_controller

PROBLEM = "urn:noted-time:problem:not_complete_yet"
MARK = {"seq": 1, "lower": 5, "upper": 5, "cut": {"0": 7}, "written_at": 1, "excluded": []}
ODD = ["1357034220000", 1357034220000.5, {}, [], True, 10**30, float("inf")]
NAMES = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
FACTS = {"complete_to"}
"""Of problems alone, whose facts OpenAPI does not list."""


def read(url: str) -> None:
    with ReaderClient(url, "s", wait_ms=100) as client:
        client.wait_for(1357034220000, timeout=0.2)


def sense(url: str) -> None:
    with closing(Transport(url)) as transport:
        run(look_at_stream(Wanted(1357034220000, "s")), transport.ask)


def command(*words: str) -> Callable[[str], None]:
    """Return what raises the message of a command that fails."""

    def ask(url: str) -> None:
        said = Commands(url)(*words)
        if said.status:
            raise UnexpectedAnswer(said.out + said.err)

    return ask


WAIT = command("wait", "s", "7", "--timeout", "0s")
ASKS = [read, sense, command("complete-to", "s"), WAIT, command("doctor", "s")]
"""What asks for a time."""


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"lower": 0}),
        (200, {"marks": [MARK, MARK | {"lower": 0}]}),
        (200, {"marks": {"default": MARK | {"lower": 0}}}),
        (200, {"writers": [{"writer": "UA", "by_itself": {"lower": 0}}]}),
        (404, {"type": PROBLEM, "complete_to": 5, "lower": 0}),
        (422, {"type": "urn:noted-time:problem:notes_refused", "results": [{"lower": 0}]}),
    ],
)
def test_a_time_that_is_no_int64_is_refused_wherever_it_is(
    status: int, body: dict[str, Any], odd: object
) -> None:
    """A gateway writes int64 as text; the sentence names field and value."""
    content = json.dumps(body).replace('"lower": 0', f'"lower": {json.dumps(odd)}').encode()

    with pytest.raises(UnexpectedAnswer) as refused:
        Reply(status, {}, content).read_body("s")

    assert refused.value.why == f"`lower` is {odd!r}, which is not an int64"


@pytest.mark.parametrize(
    "body",
    [
        {"cut": {"0": "7"}},
        {"marks": [MARK | {"cut": {"0": 7.0}}]},
        {"times": {"lower": "5"}},
        {"marks": [{"upper_is_bound": 1}]},
        {"missing": [{"writer": 5}]},
        {"missing": {}},
        {"writers": "UA"},
    ],
)
def test_any_other_field_is_refused_likewise(body: dict[str, Any]) -> None:
    """Offsets, flags, names and lists are read without further checks, too."""
    with pytest.raises(UnexpectedAnswer, match="which is not"):
        Reply(200, {}, json.dumps(body).encode()).read_body("s")


@pytest.mark.parametrize(
    "body",
    [
        {"marks": {"lower": MARK, "marks": None}, "times": {"time": 5}},
        {"late": {"rows": {"rows": 1, "least": 5}}, "lower_without": {"lower": None}},
        {"states": {"UA": "live"}, "changes": [{"was": {"lower": {}}, "is": {"time": "x"}}]},
        {"lower": None, "new": {"lower": {"UA": "?"}}} | {"new": "of a later version"},
        {"a": [[[{"b": {"c": []}}]]]},
    ],
)
def test_names_that_people_choose_are_no_fields(body: dict[str, Any]) -> None:
    """A domain, writer or reader may be called as a field is; new fields pass."""
    assert Reply(200, {}, json.dumps(body).encode()).read_body("s") == body


def test_what_gateways_answer_keeps_its_meaning() -> None:
    """Their own documents may have fields of these names."""
    body = json.dumps({"time": "Tue, 01 Jan 2013", "status": "busy"}).encode()
    errors = []
    for status in (401, 503):
        try:
            Reply(status, {"retry-after": "2"}, body).read_body("s")
        except Exception as error:  # noqa: BLE001 - which one is asserted
            errors.append(type(error).__name__)

    assert errors == ["NotAllowed", "Unreachable"]


class Fields:
    """The types of all fields of the answers of OpenAPI, by name."""

    def __init__(self) -> None:
        self.document = create_api(Controller(MemoryStore())).openapi()
        self.types: dict[str, set[type]] = {}
        self._seen: set[int] = set()
        for operations in self.document["paths"].values():
            for operation in operations.values():
                for response in operation["responses"].values():
                    for content in response.get("content", {}).values():
                        self._walk(content["schema"])

    def _of(self, schema: Any) -> Iterator[Any]:  # noqa: ANN401 - any part of the document
        """Yield what a schema may be."""
        reference = schema.get("$ref", "").rpartition("/")[2]
        schema = self.document["components"]["schemas"].get(reference, schema)
        for each in schema.get("anyOf", schema.get("oneOf", [])):
            yield from self._of(each)
        if "type" in schema:
            yield schema

    def _walk(self, schema: Any) -> None:  # noqa: ANN401 - likewise
        for each in self._of(schema):
            if id(each) in self._seen:
                continue
            self._seen.add(id(each))
            more = each.get("additionalProperties")
            for below in (each.get("items"), more if isinstance(more, dict) else None):
                self._walk(below or {})
            for name, field in each.get("properties", {}).items():
                types = (NAMES.get(one["type"]) for one in self._of(field))
                self.types.setdefault(name, set()).update(filter(None, types))
                self._walk(field)


def test_the_types_are_those_of_openapi() -> None:
    """One name has one meaning, so one table has them all; each integer is in it."""
    declared = {
        name: set(types) for name, types in find_field_types()[0].items() if name not in FACTS
    }
    found = Fields().types

    needed = {name for name, types in found.items() if int in types}
    assert declared == {name: found[name] for name in needed | declared.keys() & found.keys()}


@pytest.mark.parametrize("ask", ASKS, ids=["reader", "sensor", "complete-to", "wait", "doctor"])
def test_whoever_asks_for_a_time_ends(ask: Callable[[str], None]) -> None:
    """`x in range(…)` would walk 7 * 10^12 steps for what is no int, past every timeout."""
    problem = 404, {"type": PROBLEM, "complete_to": 7, "lower": "1357034220000"}

    def answers(path: str) -> tuple[int, Any]:
        return (200, {}) if path == "/readyz" else problem

    with (
        odd_controller(answers) as url,
        pytest.raises(NotedTimeError, match="`lower` is '1357034220000', which is not an int64"),
    ):
        ask(url)
