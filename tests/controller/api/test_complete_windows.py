"""Complete windows over HTTP."""

import asyncio

from tests.support.controllers import until
from tests.support.http import Caller

S = "/v1/streams/s"
WALL = 1_700_000_000_000
NOBODY_MISSING = {"missing": [], "missing_count": 0, "missing_is_known": True}


async def note(call: Caller, time: int, end: int) -> None:
    """Note a time at the end of segment 0, with the largest time of an event just below it."""
    await call.note({"writer": "a", "time": time, "position": {"0": end}, "max_time": time - 1})


async def test_complete_windows_are_listed_with_their_cuts(call: Caller) -> None:
    """Those that end after a time; `next` leads on."""
    for time, end in ((10, 5), (20, 8), (35, 9)):
        await note(call, time, end)
    answer = (await call.get(f"{S}/windows", size_ms=10, after=10, limit=2)).json()
    rest = (await call.get(f"{S}/windows", size_ms=10, after=answer["next"])).json()

    about = {"written_at": WALL, "excluded": [], "exact": True, **NOBODY_MISSING}
    second = {"start": 10, "end": 20, "from": {"0": 5}, "to": {"0": 8}, "seq": 2, **about}
    third = {"start": 20, "end": 30, "from": {"0": 8}, "to": {"0": 9}, "seq": 3, **about}
    stream_id = (await call.get(S)).json()["id"]
    assert (answer, rest) == (
        {"stream_id": stream_id, "windows": [second, third], "next": 30, "has_more": False},
        {"stream_id": stream_id, "windows": [], "next": 30, "has_more": False},
    )


async def test_windows_begin_where_the_marks_do(call: Caller) -> None:
    """Without `after`, with the last one that was complete at the first mark kept."""
    none = (await call.get(f"{S}/windows")).json()
    await note(call, 25, 5)
    answer = (await call.get(f"{S}/windows", size_ms=10, origin=3)).json()

    shown = [(w["start"], w["end"], w["from"], w["exact"]) for w in answer["windows"]]
    assert (none["windows"], none["next"], shown) == ([], None, [(13, 23, {}, False)])


async def test_a_window_is_waited_for(call: Caller) -> None:
    """A mark that completes none does not answer."""
    await note(call, 10, 5)
    poll = asyncio.create_task(call.get(f"{S}/windows", size_ms=10, after=10, wait_ms=30_000))
    await until(lambda: len(call.controller._notifier) == 1)
    await note(call, 15, 6)
    await until(lambda: len(call.controller._notifier) == 1)
    await note(call, 20, 8)

    assert [window["seq"] for window in (await poll).json()["windows"]] == [3]
