"""Fields that controllers of an earlier version do not know, tried with one that all know."""

from collections.abc import Callable, Iterator
from dataclasses import fields

import httpx
import pytest

from controller.service.controller import Controller
from noted_time import Note, Rejected
from noted_time.client.transport import Transport
from noted_time.values import FURTHER_FIELDS
from tests.support.http import answering
from tests.support.memory_store import MemoryStore
from tests.writer_client.scripted import Scripted, accepted, results
from writer_client.sending.exchange import Exchange
from writer_client.sending.waiting import Pending

FURTHER = ("note.log", "marks.colour")
JOINED = results(accepted(), domains=["default"])
"""The answer to a join by a controller that names no further field."""

NAMED = JOINED | {"understands": [*FURTHER, "note.of_a_later_version"]}
UNKNOWN_FIELD = httpx.Response(
    422, json={"type": "urn:noted-time:problem:invalid_request", "title": "Invalid request"}
)

Post = Callable[[], None]


BASE = frozenset(
    (
        *("writer", "time", "position", "domain", "max_time", "state", "sequence", "domains"),
        *("timeout_ms", "late", "session", "takes_over", "label", "max_times", "took_over"),
        *("held", "log", "observes", "because"),
    )
)
"""The fields of notes that every controller knows beside which another version may run."""


def test_each_field_that_was_added_to_notes_since_is_guarded() -> None:
    """Or else a controller of an earlier version would refuse the notes that have it."""
    added = {f"note.{each.name}" for each in fields(Note)} - {f"note.{name}" for name in BASE}

    assert added == {name for name in FURTHER_FIELDS if name.startswith("note.")}


@pytest.fixture(autouse=True)
def further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `log` a field that was added to notes just now."""
    for module in (
        "noted_time.client.wire",
        "controller.api.notes.route",
        "controller.api.wire.answer_shapes",
    ):
        monkeypatch.setattr(f"{module}.FURTHER_FIELDS", FURTHER)


@pytest.fixture
def controller() -> Scripted:
    """A controller whose answers a test plans."""
    return Scripted()


@pytest.fixture
def post(controller: Scripted) -> Iterator[Post]:
    """Post a note that has the new field."""
    transport = Transport("http://c", transport=controller)
    exchange = Exchange(transport.controllers, "s")

    def posted() -> None:
        transport.run(exchange.post((Pending(Note("UA", 5, log="L"), since=1, made=1),)))

    yield posted
    transport.close()


def logs(controller: Scripted) -> list[str | None]:
    """Return the new field of each note that was sent."""
    return [note.get("log") for note in controller.notes]


def test_a_field_is_sent_once_the_answer_to_a_join_names_it(
    controller: Scripted, post: Post
) -> None:
    """The join itself goes without it, as do all notes after an older controller's answer."""
    controller.planned = [JOINED, results(accepted()), NAMED]
    for _ in range(5):
        post()

    assert logs(controller) == [None, None, None, "L", "L"]


def test_a_stream_that_moved_to_an_older_controller_goes_on_without_the_field(
    controller: Scripted, post: Post
) -> None:
    """Its refusal of the unknown field drops no note; the next join asks anew."""
    controller.planned = [NAMED, UNKNOWN_FIELD, results(accepted()), NAMED]
    for _ in range(4):
        post()

    assert logs(controller) == [None, "L", None, None, "L"]


def test_a_refusal_of_notes_without_further_fields_stands(controller: Scripted, post: Post) -> None:
    """It is raised after the second refusal, and after the first where no field was left out."""
    controller.planned = [UNKNOWN_FIELD, NAMED, UNKNOWN_FIELD, UNKNOWN_FIELD]
    with pytest.raises(Rejected, match="Invalid request"):
        post()
    post()
    with pytest.raises(Rejected, match="Invalid request"):
        post()

    assert logs(controller) == [None, None, "L", None]


async def test_the_controller_names_its_fields_to_joins_and_in_the_answer_of_a_stream() -> None:
    """Other answers to notes stay as short as they were."""
    async with answering(Controller(MemoryStore())) as call:
        await call.put("/v1/streams/s")
        notes = [{"notes": [{"writer": "UA"} | more]} for more in ({}, {"time": 5})]
        join, note = [(await call.post("/v1/streams/s/notes", each)).json() for each in notes]
        stream = (await call.get("/v1/streams/s")).json()

    named = [each.get("understands") for each in (join, note, stream)]
    assert named == [[*FURTHER], None, [*FURTHER]]
