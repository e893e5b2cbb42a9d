"""One note cannot fill the memory of a stream's marks, nor freeze its readers."""

from tests.support.http import Caller, problem

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
