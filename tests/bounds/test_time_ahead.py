"""No time may be noted that is too far beyond the wall clock, if the stream sets a bound."""

import pytest

from noted_time import Accepted, Note, Refused
from noted_time.values import Beyond
from tests.support.controllers import GivenTime, WatchedMemory, deliver, serving
from tests.support.http import Caller, problem
from writer_client.sending import answers as told_by
from writer_client.sending.outbox import Outbox

WALL = 1_700_000_000_000
FAR = 4_000_000_000_000


async def test_the_bound_goes_along_with_the_wall_clock(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """A time too far ahead now is acceptable a second later."""
    async with serving(memory, time, max_time_ahead_ms=0) as controller:
        before = await deliver(controller, Note("a", WALL + 1000))
        time.passes(1000)
        after = await deliver(controller, Note("a", WALL + 1000))

        ahead = Refused("too_far_ahead", WALL, Beyond("time", WALL + 1000))
        assert (before, after) == ([ahead], [Accepted(WALL + 1000)])


async def test_the_bound_is_reported_as_a_status_of_the_note(call: Caller) -> None:
    """With the largest time allowed, which time is beyond it, and by how much."""
    await call.put("/v1/streams/s", {"max_time_ahead_ms": 1000})

    results = await call.note({"writer": "a", "time": WALL + 5000}, {"writer": "b", "time": 5})

    assert results == [
        {
            "status": "too_far_ahead",
            "last": WALL + 1000,
            "field": "time",
            "time": WALL + 5000,
            "detail": "time 1700000005000 is 4s too far ahead",
        },
        {"status": "accepted", "lower": 5},
    ]


@pytest.mark.parametrize(("factor", "unit"), [(10**3, "microseconds"), (10**6, "nanoseconds")])
async def test_a_refusal_asks_for_the_unit_that_fits(call: Caller, factor: int, unit: str) -> None:
    """In the problem's detail, for readers of that alone."""
    answer = await call.post(
        "/v1/streams/s/notes", {"notes": [{"writer": "a", "time": 5, "max_time": WALL * factor}]}
    )

    years = (WALL * factor - WALL - 3_600_000) // (365 * 86_400_000)
    assert problem(answer)[2] == (
        f"no note was accepted: 1 too_far_ahead; "
        f"max_time {WALL * factor} is {years} years too far ahead: {unit}?"
    )


@pytest.mark.parametrize("state", ["idle", "finished"])
def test_a_writers_state_is_reported_without_what_was_refused(state: str) -> None:
    """A change of state has no time, and not the largest event time of a wrong clock again."""
    outbox = Outbox("UA")
    outbox.note(5, {0: 10}, max_time=FAR)
    getattr(outbox, state)({})
    batch = outbox.take()

    outbox.answered(batch, told_by.Answered((Refused("too_far_ahead", 100),) * 2))

    posted = [(p.note.state, p.note.time, p.note.max_time) for p in outbox.take()]
    assert (len(batch), posted) == (2, [("live", 5, None), (state, None, None)])
