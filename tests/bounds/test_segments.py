"""One note cannot fill the memory of a stream's marks, nor freeze its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.http import problem

if TYPE_CHECKING:
    from tests.support.http import Caller

pytestmark = pytest.mark.anyio
S = "/v1/streams/s"


async def test_notes_add_no_more_segments_than_the_stream_may_have(call: Caller) -> None:
    """Several writers fill it as one does; the bound can be raised at any time."""
    await call.put(S, {"max_segments": 8})
    writers = ({"writer": name, "time": 1} for name in "ab")
    positions = [{str(s): 1 for s in range(start, start + 8)} for start in (0, 8)]
    notes = [
        {**note, "position": position} for note, position in zip(writers, positions, strict=True)
    ]

    before = await call.note(*notes)
    await call.put(S, {"max_segments": 16})
    after = await call.note(*notes)

    assert [each["status"] for each in (*before, *after)] == [
        "accepted",
        "too_many_segments",
        "accepted",
        "accepted",
    ]
    assert before[1]["last"] == 8


async def test_an_offset_at_the_end_of_int64_is_refused(call: Caller) -> None:
    """It would be in all later cuts, and no reader could reach it."""
    results = await call.note(
        {"writer": "a", "time": 1, "position": {"0": 5}},
        {"writer": "a", "time": 2, "position": {"0": 2**63 - 1}},
        {"writer": "b", "time": 2, "position": {"1": 2**63 - 1}},
    )

    assert results[1:] == [
        {"status": "implausible_position", "last": {"0": 5 + 10**12}},
        {"status": "implausible_position", "last": {"1": 2**62}},
    ]


async def test_null_takes_any_offset(call: Caller) -> None:
    """For logs whose offsets do not count rows."""
    shown = await call.put(S, {"max_offset_jump": None})

    (result,) = await call.note({"writer": "a", "time": 1, "position": {"0": 2**63 - 1}})

    assert (shown.json()["max_offset_jump"], result["status"]) == (None, "accepted")


async def test_a_scale_event_beyond_the_most_is_a_problem_of_its_own(call: Caller) -> None:
    """With the bound beside it."""
    await call.put(S, {"max_segments": 1})
    await call.note({"writer": "a", "time": 1, "position": {"0": 5}})

    refused = await call.post(f"{S}/scale", {"sealed": {"0": 5}, "created": {"1": [0]}})

    assert (problem(refused), refused.json()["limit"]) == (
        (
            422,
            "too_many_segments",
            "the limit of 1 segments of the stream is reached: raise max_segments of the stream",
        ),
        1,
    )


async def test_segments_sealed_before_the_first_mark_kept_make_room(call: Caller) -> None:
    """A stream that scales again and again needs no larger bound."""
    await call.put(S, {"max_segments": 2, "mark_interval_ms": 0})
    await call.note({"writer": "a", "time": 1, "position": {"0": 5}})
    await call.post(f"{S}/scale", {"sealed": {"0": 5}, "created": {"1": [0]}})
    await call.note({"writer": "a", "time": 2, "position": {"1": 1}})
    again = {"sealed": {"1": 1}, "created": {"2": [1]}}
    full = await call.post(f"{S}/scale", again)

    await call.post(f"{S}/truncate", {"cut": {"0": 5, "1": 1}})
    taken = await call.post(f"{S}/scale", again)

    assert (full.status_code, taken.status_code) == (422, 200)
