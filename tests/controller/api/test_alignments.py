"""Alignments over HTTP, and how far readers are in each segment."""

from typing import Any

import pytest

from controller.service.controller import Controller
from tests.support.controllers import GivenTime, WatchedMemory, serve_for
from tests.support.gates import Guarded, behind
from tests.support.http import Caller, problem

A = "/v1/alignments/a"

READER = "/v1/streams/s/reader-groups/g/readers/r"


async def made(call: Caller, **settings: int) -> None:
    """Make the alignment."""
    answer = await call.put(A, {"max_drift": 1000} | settings)
    assert answer.status_code in {200, 201}, answer.text


async def reported(call: Caller, member: str, **said: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Report a member; return the bound and the members that hold it."""
    answer = await call.put(f"{A}/members/{member}", said)
    assert answer.status_code == 200, answer.text
    return answer.json()["bound"], answer.json()["held_by"]


def member(time: int | None, state: str = "live", **said: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a member as an answer shows it: by default counted, and no reader group."""
    return {
        "time": time,
        "state": state,
        "silent_for_ms": 0,
        "counted": True,
        "at_bound": False,
        "group": None,
    } | said


async def test_an_alignment_is_made_changed_and_removed(call: Caller) -> None:
    """It answers with its settings; omitted ones have their defaults, also in a change."""
    new = await call.put(A, {"max_drift": 60_000})
    changed = await call.put(A, {"max_drift": 1, "member_timeout_ms": 5})
    shown = await call.get(A)
    removed = await call.client.delete(A)
    gone = [await call.get(A), await call.client.delete(A), await call.put(f"{A}/members/m", {})]

    nobody: dict[str, Any] = {"bound": None, "held_by": None, "drift": None, "members": {}}
    assert (new.status_code, new.json()) == (
        201,
        {"name": "a", "max_drift": 60_000, "member_timeout_ms": 30_000} | nobody,
    )
    after = {"name": "a", "max_drift": 1, "member_timeout_ms": 5} | nobody
    assert (changed.status_code, changed.json(), shown.json()) == (200, after, after)
    assert (removed.status_code, [problem(each)[:2] for each in gone]) == (
        204,
        [(404, "unknown_alignment")] * 3,
    )


async def test_a_member_may_take_the_time_of_a_reader_group(call: Caller) -> None:
    """At the lower of the group's window, which it has from its first mark on."""
    await made(call)
    group = {"stream": "s", "group": "g"}
    await call.put(READER, {"position": {}})
    before = await reported(call, "readers", **group)
    await call.note({"writer": "w", "time": 10, "position": {"0": 5}})
    await call.note({"writer": "w", "time": 20, "position": {"0": 9}})
    await call.put(READER, {"position": {"0": 5}})
    first = await reported(call, "readers", **group)
    await call.put(READER, {"position": {"0": 9}})
    second = await reported(call, "readers", **group, domain="default")

    assert [before, first, second] == [(None, None), (1010, "readers"), (1020, "readers")]
    shown = (await call.get(A)).json()["members"]["readers"]["group"]
    assert shown == {"stream": "s", "group": "g", "domain": "default"}


@pytest.mark.parametrize("is_sealed", [False, True], ids=["quiet", "sealed"])
async def test_nobody_waits_for_a_group_at_the_end_of_its_stream(
    call: Caller,
    is_sealed: bool,  # noqa: FBT001
) -> None:
    """It has read all there is: it counts as idle or finished, as clients report themselves."""
    await made(call)
    group = {"stream": "s", "group": "g"}
    await call.put(READER, {"position": {}})
    await call.note({"writer": "w", "time": 10, "position": {"0": 5}})
    await call.note({"writer": "w", "time": 20, "position": {"0": 9}})
    if is_sealed:
        await call.post("/v1/streams/s/seal", {})
    else:
        await call.note({"writer": "w", "state": "idle"})
    await call.put(READER, {"position": {"0": 5}})
    before = await reported(call, "readers", **group)
    await call.put(READER, {"position": {"0": 9}})
    await reported(call, "other", time=500)
    after = await reported(call, "readers", **group)

    state = (await call.get(A)).json()["members"]["readers"]["state"]
    assert (before, after) == ((1010, "readers"), (1500, "other"))
    assert state == ("finished" if is_sealed else "idle")


async def test_a_group_of_what_is_not_there_is_refused(call: Caller) -> None:
    """And the member does not join."""
    await made(call)
    await call.put(READER, {"position": {}})
    named = [
        {"stream": "x", "group": "g"},
        {"stream": "s", "group": "x"},
        {"stream": "s", "group": "g", "domain": "x"},
    ]
    answers = [await call.put(f"{A}/members/m", each) for each in named]

    assert [problem(each)[:2] for each in answers] == [
        (404, "unknown_stream"),
        (404, "unknown_reader"),
        (404, "unknown_domain"),
    ]
    assert (await call.get(A)).json()["members"] == {}


async def test_a_member_belongs_to_the_token_that_made_it_until_it_is_silent(
    time: GivenTime,
) -> None:
    """Else any reader could hold the others, or let them run ahead; an administrator may."""
    guarded = Guarded()
    own, other, admin = (guarded.token(scope) for scope in ("read", "read", "admin"))
    member = f"{A}/members/m"
    async with behind(guarded.gate, time=time) as door:
        await door.call("PUT", A, admin, {"max_drift": 1, "member_timeout_ms": 5000})
        tokens = (own, other, admin, other, own)
        seen = [await door.call("PUT", member, token, {"time": 5}) for token in tokens]
        serve_for(door.controller, time, 5000)
        seen += [await door.call("PUT", member, token, {"time": 7}) for token in (other, own)]

    refused = (403, "foreign_member")
    assert [each == refused for each in seen] == [False, True, False, True, False, False, True]


@pytest.mark.parametrize(
    "body",
    [
        {"time": 1, "stream": "s", "group": "g"},
        {"stream": "s"},
        {"group": "g"},
        {"domain": "default"},
        {"time": "1"},
        {"time": 2**63},
        {"stream": None, "group": None},
        {"state": "excluded"},
        {"tiem": 1},
    ],
)
async def test_a_report_has_a_time_or_a_group(call: Caller, body: dict[str, Any]) -> None:
    """Not both, no half of one, and no unknown field."""
    await made(call)

    answer = await call.put(f"{A}/members/m", body)

    assert problem(answer)[:2] == (422, "invalid_request")


async def test_alignments_are_listed_by_name_a_page_at_a_time(call: Caller) -> None:
    """With their settings; bound and members are asked for by name."""
    for name in ("b", "a", "c"):
        await call.put(f"/v1/alignments/{name}", {"max_drift": 10})
    await reported(call, "m", time=5)
    first = (await call.get("/v1/alignments", limit=2)).json()
    second = (await call.get("/v1/alignments", limit=2, after=first["next"])).json()

    a, b, c = ({"name": name, "max_drift": 10, "member_timeout_ms": 30_000} for name in "abc")
    assert first == {"alignments": [a, b], "next": "b"}
    assert second == {"alignments": [c], "next": None}


async def test_settings_outlive_the_controller_and_members_report_again(
    call: Caller, memory: WatchedMemory, time: GivenTime
) -> None:
    """Until they do, nothing bounds anybody."""
    await made(call, member_timeout_ms=7)
    await reported(call, "m", time=1)
    await call.put("/v1/alignments/b", {"max_drift": 5})
    await call.client.delete("/v1/alignments/b")
    again = Controller(memory, time.clocks())
    await again.start()
    settings, now = again.alignments.now("a")
    names = [record.name for record in memory.alignments()]

    assert ((settings.max_drift, settings.member_timeout_ms), now.bound, now.members, names) == (
        (1000, 7),
        None,
        {},
        ["a"],
    )


# How far positions and the readers of a group are in each segment, over HTTP


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
