"""No single request holds the event loop for long: no unneeded work is done."""

from typing import Any

import msgspec
import pytest

from controller.api.note_body import EXPLAINED
from noted_time import Note
from tests.support.controllers import WatchedMemory, serving
from tests.support.http import Caller, problem

S = "/v1/streams/s"


@pytest.mark.parametrize("wrong", [-1, "1", 1.5, True, 2**63])
async def test_of_a_large_body_the_first_fault_is_named_alone(call: Caller, wrong: object) -> None:
    """There may be as many faults as offsets, and each is expensive to describe."""
    offsets = dict.fromkeys(map(str, range(1000)), 1)
    position = offsets | dict.fromkeys(map(str, range(5000, 8000)), wrong)
    answers = [
        await call.post(f"{S}/time-window", {"position": position}),
        await call.post(f"{S}/truncate", {"cut": position}),
        await call.post(f"{S}/notes", {"notes": [{"writer": "a", "position": position}]}),
    ]

    assert [problem(answer)[:2] for answer in answers] == [(422, "invalid_request")] * 3
    assert [len(answer.json()["errors"]) for answer in answers] == [1, 1, 1]
    assert answers[0].json()["errors"][0]["where"].startswith("body.position.5000")


MANY = 50_000
WRONG = dict.fromkeys(map(str, range(MANY)), "x")
TEXTS = dict.fromkeys(map("d{:05}".format, range(MANY)), "x")
UNKNOWN = dict.fromkeys(map("no{:05}".format, range(MANY)), 1)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", S, {"expected_writers": [f"{number} {'x' * 80}" for number in range(10_000)]}),
        ("PUT", S, {"domains": list(WRONG)}),
        ("PUT", S, UNKNOWN),
        ("POST", f"{S}/notes", {"notes": [{"writer": "a", "position": WRONG}]}),
        ("POST", f"{S}/notes", {"notes": [{"writer": "a", "max_times": TEXTS}]}),
        ("POST", f"{S}/time-window", {"position": WRONG}),
        ("POST", f"{S}/segment-times", {"position": WRONG}),
        ("POST", f"{S}/truncate", {"cut": WRONG}),
        ("POST", f"{S}/scale", {"sealed": WRONG}),
        ("POST", f"{S}/scale", {"created": WRONG}),
        ("POST", f"{S}/scale", {"created": {str(each): ["x"] * 4000 for each in range(50)}}),
        ("POST", f"{S}/seal", {"cut": WRONG}),
        ("POST", f"{S}/seal", {"final_times": TEXTS}),
        ("POST", f"{S}/writers/a/hold", {"for_ms": 1} | UNKNOWN),
        ("PUT", f"{S}/reader-groups/g", {"backlog": UNKNOWN}),
        ("PUT", f"{S}/reader-groups/g/readers/r", {"position": WRONG}),
        ("PUT", "/v1/alignments/a", {"max_drift": 1} | UNKNOWN),
        ("PUT", "/v1/alignments/a/members/m", {"time": 1} | UNKNOWN),
    ],
)
async def test_an_invalid_body_is_judged_up_to_its_first_fault(
    call: Caller, method: str, path: str, body: dict[str, Any]
) -> None:
    """Ten would be named if the validator had built more than one."""
    content = msgspec.json.encode(body)
    answer = await call.client.request(
        method, path, content=content, headers={"Content-Type": "application/json"}
    )

    assert len(content) > EXPLAINED
    assert problem(answer)[:2] == (422, "invalid_request")
    assert len(answer.json()["errors"]) == 1


async def test_of_a_small_body_ten_faults_are_named(call: Caller) -> None:
    """As before, so that all is mended at once."""
    notes: list[dict[str, Any]] = [{"writer": "a", "time": "5"} for _ in range(12)]
    assert len(msgspec.json.encode({"notes": notes})) < EXPLAINED
    answer = await call.post(f"{S}/notes", {"notes": notes})

    assert len(answer.json()["errors"]) == 10


async def test_settings_that_are_as_they_were_write_nothing() -> None:
    """Neither the members nor a change; the answer is the stream as always."""
    memory = WatchedMemory()
    async with serving(memory) as controller:
        await controller.note("s", [Note("a", 5), Note("b", 6)])
        before = len(memory.watch.batches)
        stream, is_new = await controller.put_stream("s", {"writer_timeout_ms": 60_000})

        assert (stream.settings.writer_timeout_ms, is_new) == (60_000, False)
        assert len(memory.watch.batches) == before
