"""How far positions and the readers of a group are in each segment, over HTTP."""

import pytest

from tests.support.http import Caller, problem

S = "/v1/streams/s"
CUTS = {10: {"0": 100}, 15: {"0": 120, "1": 40}, 40: {"0": 300, "1": 80}}


@pytest.fixture
async def marked(call: Caller) -> Caller:
    """Return a caller whose stream has a mark at each of the cuts."""
    for time, position in CUTS.items():
        await call.note({"writer": "UA", "time": time, "position": position})
    return call


async def test_segment_times_show_how_far_a_position_is_in_each_segment(marked: Caller) -> None:
    """Least time first; as a whole it is as far behind as the last of its segments."""
    answer = await marked.post(f"{S}/segment-times", {"position": {"0": 300, "1": 79}})

    assert answer.json() == {
        "segments": {"0": {"lower": 40, "behind": 0}, "1": {"lower": 15, "behind": 25}},
        "order": [1, 0],
        "behind": 25,
    }


async def test_segment_times_of_what_there_is_not_are_refused(call: Caller) -> None:
    """A domain, a stream, a position, a field."""
    answers = [
        await call.post(f"{S}/segment-times", {"position": {}, "domain": "ship_time"}),
        await call.post("/v1/streams/t/segment-times", {"position": {}}),
        await call.post(f"{S}/segment-times", {"position": {"0": -1}}),
        await call.post(f"{S}/segment-times", {"position": {}, "time": 5}),
    ]

    assert [problem(answer)[:2] for answer in answers] == [
        (404, "unknown_domain"),
        (404, "unknown_stream"),
        (422, "invalid_request"),
        (422, "invalid_request"),
    ]


async def test_the_reader_that_holds_most_of_what_is_behind_ranks_highest(marked: Caller) -> None:
    """Segments held, times the own share of the largest lag; a spare reader has none."""
    await marked.put(f"{S}/reader-groups/g/readers/two", {"position": {"0": 100, "5": 1}})
    await marked.put(f"{S}/reader-groups/g/readers/one", {"position": {"1": 79}})
    await marked.put(f"{S}/reader-groups/g/readers/spare", {"position": {}})
    found = (await marked.get(f"{S}/reader-groups/g")).json()

    assert (found["behind"], found["lags"]) == (
        {"default": 30},
        {
            "default": {
                "one": {"behind": 25, "rank": 25 / 30},
                "spare": {"behind": 0, "rank": 0.0},
                "two": {"behind": 30, "rank": 2.0},
            }
        },
    )


async def test_a_reader_before_all_marks_ranks_as_the_one_farthest_behind(marked: Caller) -> None:
    """A segment that is sealed and read to its end is not to be handed over."""
    await marked.post(f"{S}/scale", {"sealed": {"1": 80}, "created": {"2": [1]}})
    await marked.put(f"{S}/reader-groups/g/readers/old", {"position": {"0": 99}})
    await marked.put(f"{S}/reader-groups/g/readers/new", {"position": {"1": 80, "2": 0}})
    found = (await marked.get(f"{S}/reader-groups/g")).json()

    assert found["lags"]["default"] == {
        "new": {"behind": 0, "rank": 0.0},
        "old": {"behind": None, "rank": 1.0},
    }
