"""Complete windows over HTTP."""

import asyncio

from tests.support.controllers import until
from tests.support.http import Caller

S = "/v1/streams/s"
WALL = 1_700_000_000_000
ALL_THERE = {
    "missing": [],
    "missing_count": 0,
    "missing_is_known": True,
    "late": [],
    "late_count": 0,
    "late_is_known": True,
    "before_first_mark": False,
}


async def note(call: Caller, time: int, end: int) -> None:
    """Note a time at the end of segment 0, with the largest time of an event just below it."""
    await call.note({"writer": "a", "time": time, "position": {"0": end}, "max_time": time - 1})


async def test_complete_windows_are_listed_with_their_cuts(call: Caller) -> None:
    """Those that end after a time; `next` leads on."""
    for time, end in ((10, 5), (20, 8), (35, 9)):
        await note(call, time, end)
    answer = (await call.get(f"{S}/windows", size_ms=10, after=10, limit=2)).json()
    rest = (await call.get(f"{S}/windows", size_ms=10, after=answer["next"])).json()

    about = {"written_at": WALL, "excluded": [], "exact": True, **ALL_THERE}
    second = {"start": 10, "end": 20, "from": {"0": 5}, "to": {"0": 8}, "seq": 2, **about}
    third = {"start": 20, "end": 30, "from": {"0": 8}, "to": {"0": 9}, "seq": 3, **about}
    stream_id = (await call.get(S)).json()["id"]
    assert (answer, rest) == (
        {"stream_id": stream_id, "windows": [second, third], "next": 30, "has_more": False},
        {"stream_id": stream_id, "windows": [], "next": 30, "has_more": False},
    )


async def test_windows_begin_where_the_marks_do(call: Caller) -> None:
    """Without `after`, with the window of the lower of the first mark there ever was."""
    none = (await call.get(f"{S}/windows")).json()
    await note(call, 25, 5)
    await note(call, 45, 6)
    answer = (await call.get(f"{S}/windows", size_ms=10, origin=3)).json()

    shown = [(w["start"], w["end"], w["from"], w["exact"]) for w in answer["windows"]]
    assert (none["windows"], none["next"], shown) == (
        [],
        None,
        [(23, 33, {}, False), (33, 43, {"0": 5}, True)],
    )


async def test_a_window_is_waited_for(call: Caller) -> None:
    """A mark that completes none does not answer."""
    await note(call, 10, 5)
    poll = asyncio.create_task(call.get(f"{S}/windows", size_ms=10, after=10, wait_ms=30_000))
    await until(lambda: len(call.controller._notifier) == 1)
    await note(call, 15, 6)
    await until(lambda: len(call.controller._notifier) == 1)
    await note(call, 20, 8)

    assert [window["seq"] for window in (await poll).json()["windows"]] == [3]


async def test_windows_before_the_first_mark_are_vouched_for_by_nobody(call: Caller) -> None:
    """Back to 1970 they are complete, and it is not known who is missing from them."""
    await note(call, 25, 5)
    await note(call, 45, 6)
    answer = (await call.get(f"{S}/windows", size_ms=10, after=0)).json()
    cuts = [
        (await call.get(f"{S}/cut", complete_to=to, **since)).json()
        for to, since in ((24, {}), (25, {}), (30, {"since": 20}), (30, {"since": 25}))
    ]

    shown = [(w["start"], w["before_first_mark"], w["missing_is_known"]) for w in answer["windows"]]
    before = [each["before_first_mark"] for each in cuts]
    assert shown == [(0, True, False), (10, True, False), (20, True, False), (30, False, True)]
    assert (before, [not each["missing_is_known"] for each in cuts]) == (
        [True, False, True, False],
        [True, False, True, False],
    )


async def test_windows_and_cuts_name_the_writers_of_late_rows(call: Caller) -> None:
    """One row for each, with the rows of the range asked for; `since` is below the time."""
    await note(call, 10, 5)
    await note(call, 40, 8)
    late = {"late": [{"rows": 112, "least": 12, "most": 18}]}
    await call.note({"writer": "a", "time": 40} | late)
    answer = (await call.get(f"{S}/windows", size_ms=10, after=10)).json()
    cuts = [
        (await call.get(f"{S}/cut", complete_to=to, **since)).json()
        for to, since in ((40, {}), (40, {"since": 19}), (15, {"since": 10}))
    ]
    refused = await call.get(f"{S}/cut", complete_to=15, since=15)
    ledger = (await call.get(f"{S}/ledger")).json()

    named = {"writer": "a", "rows": 112, "least": 12, "most": 18, "last_seen": WALL}
    whole, part = named | {"at_most": False}, named | {"at_most": True}
    seen = named | {"first_seen": WALL, "behind": 28}
    assert [w["late"] for w in answer["windows"]] == [[whole], [], []]
    assert [(each["late"], each["late_count"]) for each in cuts] == [
        ([whole], 1),
        ([], 0),
        ([part], 1),
    ]
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "`since` 15 is not before `complete_to` 15",
    )
    assert (ledger["entries"], ledger["late"], ledger["late_count"]) == ([], [seen], 1)
