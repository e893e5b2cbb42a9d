"""The vectors that implementers test against say what our own code does, byte for byte."""

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from controller.api.notes.body import decode
from controller.service.controller import Controller
from noted_time.client import position_from_wire, position_to_wire
from noted_time.coding import convert_to_json
from noted_time.reading.history import MarkHistory
from noted_time.values import Accepted, Mark, StreamCut
from tests.support.controllers import GivenTime
from tests.support.http import serve_app
from tests.support.streams import advance_all, make_stream
from tools.trials.memory_store import MemoryStore

Vector = dict[str, Any]

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "coalescing.json"


def read(name: str) -> list[Vector]:
    vectors: list[Vector] = json.loads((HERE / "vectors" / f"{name}.json").read_text("utf-8"))
    assert vectors
    return vectors


def show_mark(domain: str, mark: Mark) -> Vector:
    """Return the part of a mark that a history determines."""
    wire = convert_to_json(mark)
    return {"domain": domain, **{name: wire[name] for name in ("seq", "lower", "upper", "cut")}}


@pytest.mark.anyio
@pytest.mark.parametrize("vector", read("exchanges"), ids=itemgetter("name"))
async def test_an_answer_has_these_bytes(vector: Vector) -> None:
    time = GivenTime(wall=vector["now"])
    controller = Controller(MemoryStore(), time.clocks())
    async with serve_app(controller) as caller:
        await caller.put("/v1/streams/flights", vector["settings"])
        for step in vector["steps"]:
            time.passes(1)
            request = step["request"].encode()
            answer = await caller.send("POST", "/v1/streams/flights/notes", request)

            assert (answer.status_code, answer.text) == (step["status"], step["answer"])


@pytest.mark.parametrize("vector", read("aggregation"), ids=itemgetter("name"))
def test_notes_make_these_marks(vector: Vector) -> None:
    stream = make_stream(domains=tuple(vector["domains"]))
    for step in vector["steps"]:
        (note,) = decode(json.dumps({"notes": [step["note"]]}).encode())
        result = stream.note(note, 0)
        status = "accepted" if isinstance(result, Accepted) else result.status
        marks = []
        for domain in vector["domains"]:
            marks += [show_mark(domain, mark) for mark in advance_all(stream, domain)]

        assert (status, marks) == (step["status"], step["marks"])


def test_histories_include_all_golden_cases() -> None:
    """With the watermarks that the other engine emits."""
    steps_by_name = {vector["name"]: vector["steps"] for vector in read("aggregation")}
    for case in json.loads(GOLDEN.read_text("utf-8")):
        steps = steps_by_name[case["name"]][case["inputs"] :]  # after the joins
        assert len(steps) == len(case["steps"])
        for step, golden_step in zip(steps, case["steps"], strict=True):
            lowers = [(mark["domain"], mark["lower"]) for mark in step["marks"]]
            assert lowers == [(str(domain), lower) for domain, lower in golden_step["expect"]]


@pytest.mark.parametrize("vector", read("cuts"), ids=itemgetter("name"))
def test_two_cuts_are_in_this_relation(vector: Vector) -> None:
    first_cut = StreamCut(position_from_wire(vector["one"]))
    other = StreamCut(position_from_wire(vector["other"]))
    relation = {
        "one_reaches_other": first_cut.reaches(other),
        "other_reaches_one": other.reaches(first_cut),
        "join": position_to_wire(first_cut.join(other).offsets),
    }

    assert {**vector, **relation} == vector


@pytest.mark.parametrize("vector", read("windows"), ids=itemgetter("name"))
def test_a_position_has_this_window(vector: Vector) -> None:
    marks = [
        Mark(m["seq"], m["lower"], m["upper"], StreamCut(position_from_wire(m["cut"])))
        for m in vector["marks"]
    ]
    window = MarkHistory(marks).window(position_from_wire(vector["position"]))
    window_fields = {
        name: getattr(window, name) for name in ("lower", "upper", "lower_seq", "upper_seq")
    }

    assert window_fields == vector["window"]
