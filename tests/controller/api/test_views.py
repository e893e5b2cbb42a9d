"""Views over HTTP: the overview, how a watermark moved, and segments."""

from typing import Any

from controller.aggregation.views.overview import LAG_EVERY_MS, LAGS_SHOWN
from controller.service.maintenance import exclude_silent_writers
from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller, problem

S = "/v1/streams/s"
WALL = 1_700_000_000_000
MINUTE = 60_000


async def note(call: Caller, stream: str, *notes: dict[str, Any]) -> None:
    answer = await call.post(f"/v1/streams/{stream}/notes", {"notes": notes})
    assert {each["status"] for each in answer.json()["results"]} == {"accepted"}


async def made(call: Caller, *streams: str, **settings: Any) -> None:  # noqa: ANN401 - any setting
    for stream in streams:
        await call.put(f"/v1/streams/{stream}", {"mark_interval_ms": 0, **settings})


async def named(call: Caller, **query: Any) -> list[str]:  # noqa: ANN401 - any parameter
    streams = (await call.get("/v1/overview", **query)).json()["streams"]
    return [stream["name"] for stream in streams]


async def test_a_stalled_stream_shows_its_holders_and_since_when(
    call: Caller, time: GivenTime
) -> None:
    await call.note({"writer": "gone"}, {"writer": "gone", "state": "finished"})
    await call.note({"writer": "slow", "time": WALL - MINUTE}, {"writer": "a", "time": WALL})
    await call.put(S, {"writer_timeout_ms": 3_600_000})
    serve_for(call.controller, time, 5 * MINUTE)
    answer = (await call.get("/v1/overview")).json()
    stream_id = (await call.get(S)).json()["id"]

    lag = [None] * (LAGS_SHOWN - 3) + [m * MINUTE for m in (2, 4, 6)]
    domain = {"domain": "default", "lower": WALL - MINUTE, "upper": WALL - MINUTE}
    domain |= {"written_at": WALL, "decision": "hold", "holders": 1, "held_by": "slow"}
    domain |= {"condition": "holds"}
    domain |= {"held_for_ms": 5 * MINUTE, "times_out_in_ms": 55 * MINUTE, "lag": lag}
    writers = {"live": 2, "idle": 0, "finished": 1, "excluded": 0}
    row = {"name": "s", "id": stream_id, "answered": True, "writers": writers, "domains": [domain]}
    row |= {"silence": None}
    counts = {"total": 1, "unanswered": 0, "conditions": {"holds": 1}}
    assert (LAG_EVERY_MS, answer) == (
        2 * MINUTE,
        {"now": WALL + 5 * MINUTE, **counts, "streams": [row], "next": None},
    )


async def test_a_stream_without_marks_shows_nothing_but_its_decision(call: Caller) -> None:
    await made(call, "new", "other")
    await note(call, "other", {"writer": "a", "time": 5}, {"writer": "a", "state": "finished"})
    rows = (await call.get("/v1/overview", search="e")).json()["streams"]

    shown = [(row["name"], *row["domains"][0].values()) for row in rows]
    nothing = ("quiet", "quiet", 0, None, None, None, [None] * LAGS_SHOWN)
    assert shown == [
        ("new", "default", None, None, None, *nothing),
        ("other", "default", 5, 5, WALL, *nothing),
    ]


async def test_trouble_comes_first(call: Caller, time: GivenTime) -> None:
    """The longest held by ten seconds, then those with excluded writers, then by name."""
    await made(call, "a", "held", "longer", "z", writer_timeout_ms=10**9)
    await note(call, "longer", {"writer": "w"})
    serve_for(call.controller, time, 11_000)
    await note(call, "held", {"writer": "w"})
    serve_for(call.controller, time, 11_000)
    await note(call, "s", {"writer": "w"}, {"writer": "v"}, {"writer": "v", "state": "idle"})
    await call.client.delete(f"{S}/writers/w")
    serve_for(call.controller, time, 5_000)
    await note(call, "a", {"writer": "w"})
    await note(call, "z", {"writer": "w"})
    serve_for(call.controller, time, 2_000)

    assert await named(call) == ["longer", "held", "s", "a", "z"]
    assert await named(call, sort="name") == ["a", "held", "longer", "s", "z"]


async def test_streams_are_counted_by_how_they_are(call: Caller, time: GivenTime) -> None:
    """The worst of its domains counts for a stream."""
    await made(call, "advancing", "held", "left", "new", "quiet", "sealed", writer_timeout_ms=10**9)
    await call.put("/v1/streams/held", {"domains": ["default", "shipped"]})
    await note(call, "left", {"writer": "w"})
    await call.client.delete("/v1/streams/left/writers/w")
    await note(call, "held", {"writer": "w"}, {"writer": "w", "time": 5, "domain": "shipped"})
    await note(call, "sealed", {"writer": "w", "time": 5})
    await call.post("/v1/streams/sealed/seal", {})
    serve_for(call.controller, time, 11_000)
    for time_noted in (5, 6):
        await note(call, "advancing", {"writer": "w", "time": time_noted})
    await note(call, "new", {"writer": "w"})
    counts = (await call.get("/v1/overview", limit=1)).json()["conditions"]

    assert counts == {
        "silent": 1,
        "holds": 1,
        "unmarked": 1,
        "advancing": 1,
        "quiet": 2,
        "sealed": 1,
    }


async def moved(call: Caller, time: GivenTime) -> None:
    """Let the watermark move each minute, five times, the fourth without `slow`."""
    for minute in range(5):
        lower = WALL - 3_600_000 + minute * MINUTE
        notes: list[dict[str, Any]] = [{"writer": "a", "time": lower, "max_time": lower + 7}]
        if minute == 1:
            notes.append({"writer": "slow", "time": lower + MINUTE})
        await call.note(*notes)
        if minute == 3:
            await call.client.delete(f"{S}/writers/slow")
        time.passes(MINUTE)


async def test_history_shows_how_the_watermark_moved(call: Caller, time: GivenTime) -> None:
    """A point per slot has the last mark, the largest lag, and the excluded writers."""
    await moved(call, time)
    whole = (await call.get(f"{S}/history")).json()
    later = (await call.get(f"{S}/history", **{"from": WALL + MINUTE + 1}, points=1)).json()

    marks = (await call.get(f"{S}/marks")).json()["marks"]
    kept = [(mark["seq"], mark["lower"], mark["written_at"]) for mark in marks]
    about = {name: whole[name] for name in ("now", "from", "to", "first_at", "before")}
    now = WALL + 5 * MINUTE
    assert about == {"now": now, "from": WALL, "to": now, "first_at": WALL, "before": None}
    assert [(each["seq"], each["lower"], each["at"]) for each in whole["points"]] == kept
    assert [each["lag_ms"] for each in whole["points"]] == [None, *[61 * MINUTE] * 4]
    (point,) = later["points"]
    assert (later["before"], point["marks"], point["excluded"], point["excluded_marks"]) == (
        marks[1]["lower"],
        3,
        ["slow"],
        1,
    )
    assert {*point} == {
        *("at", "seq", "lower", "upper", "upper_is_bound"),
        *("marks", "lag_ms", "excluded", "excluded_marks"),
    }


async def test_history_is_that_of_one_domain(call: Caller) -> None:
    await call.put(S, {"domains": ["default", "ship_time"]})
    await call.note({"writer": "a", "time": 5})
    shown = (await call.get(f"{S}/history", domain="ship_time")).json()
    unknown = await call.get(f"{S}/history", domain="nope")

    nothing: dict[str, Any] = {"first_at": None, "before": None, "points": []}
    assert shown == nothing | dict.fromkeys(("now", "from", "to"), WALL)
    assert problem(unknown)[:2] == (404, "unknown_domain")


async def test_segments_name_their_writers(call: Caller) -> None:
    await call.note({"writer": "b", "time": 5, "position": {"0": 3}}, {"writer": "a"})
    await call.note({"writer": "a", "time": 7, "position": {"0": 9, "1": 4}})
    await call.post(f"{S}/scale", {"sealed": {"0": 9}, "created": {"2": [0], "3": [0]}})
    await call.note({"writer": "b", "time": 9, "position": {"2": 1}}, {"writer": "c"})
    page = (await call.get(f"{S}/segments")).json()

    shown = {row.pop("segment"): row for row in page["segments"]}
    nothing = {"first_offset": None, "last_offset": None, "first_lower": None, "last_lower": None}
    assert (page["now"], page["next"], [*shown]) == (WALL, None, [0, 1, 2, 3])
    assert shown[0] == {
        "state": "sealed",
        "predecessors": [],
        "successors": [2, 3],
        "first_offset": 3,
        "last_offset": 9,
        "first_lower": 5,
        "last_lower": 7,
        "writers": ["b", "a"],
        "writers_total": 2,
    }
    assert (shown[1]["state"], shown[1]["writers"], shown[1]["last_offset"]) == ("open", ["a"], 4)
    assert shown[3] == {
        "state": "open",
        "predecessors": [0],
        "successors": [],
        **nothing,
        "writers": [],
        "writers_total": 0,
    }


async def test_a_segment_is_truncated_once_no_mark_is_left_before_its_end(call: Caller) -> None:
    for time, offset in ((5, 3), (7, 9), (8, 9)):
        await call.note({"writer": "a", "time": time, "position": {"0": offset}})
    await call.post(f"{S}/scale", {"sealed": {"0": 9}, "created": {"1": [0]}})
    states = []
    for cut in (0, 3, 9):
        await call.post(f"{S}/truncate", {"cut": {"0": cut}})
        states.append((await call.get(f"{S}/segments")).json()["segments"][0]["state"])

    assert states == ["sealed", "sealed", "truncated"]


async def test_segments_come_a_page_at_a_time(call: Caller) -> None:
    wide = {str(segment): 1 for segment in range(5)}
    await call.note(*({"writer": f"w{n:02}", "position": wide} for n in range(12)))
    pages = [(await call.get(f"{S}/segments", start=n, limit=2)).json() for n in (0, 2, 4)]

    numbers = [[row["segment"] for row in page["segments"]] for page in pages]
    assert (numbers, [page["next"] for page in pages]) == ([[0, 1], [2, 3], [4]], [2, 4, None])
    row = pages[0]["segments"][0]
    assert (row["writers"], row["writers_total"]) == ([f"w{n:02}" for n in range(10)], 12)


async def test_writers_are_listed_by_domain_and_name(call: Caller, time: GivenTime) -> None:
    await call.put(S, {"domains": ["default", "ship_time"]})
    await call.note({"writer": "zulu", "time": 5}, {"writer": "alpha", "time": 9})
    serve_for(call.controller, time, 1000)
    await call.note({"writer": "zulu", "domain": "ship_time", "time": 3})
    await call.note({"writer": "lima", "domain": "ship_time", "time": 8})
    ship = (await call.get(f"{S}/writers", domain="ship_time")).json()
    searched = (await call.get(f"{S}/writers", domain="default", search="l", limit=1)).json()
    rest = (await call.get(f"{S}/writers", domain="default", search="li")).json()

    shown = ("writer", "times_out_in_ms", "lower_without")
    assert [tuple(row[name] for name in shown) for row in ship["writers"]] == [
        ("alpha", 59_000, 3),
        ("zulu", None, None),
        ("lima", None, None),
    ]
    assert (searched["total"], searched["next"], len(searched["writers"])) == (3, 1, 1)
    assert [tuple(row[name] for name in shown) for row in rest["writers"]] == [("lima", 60_000, 5)]
    unknown = await call.get(f"{S}/writers", domain="nope")
    assert problem(unknown)[:2] == (404, "unknown_domain")


async def test_writers_of_a_stream_without_a_default_domain_are_listed(call: Caller) -> None:
    await made(call, "t", domains=["order_time", "ship_time"], expected_writers=["a"])
    await note(call, "t", {"writer": "a"})
    (row,) = (await call.get("/v1/streams/t/writers")).json()["writers"]

    shown = (row["holding_since"], row["times_out_in_ms"], row["is_expected"])
    assert shown == (WALL, None, True)


async def test_reader_groups_are_listed_with_how_far_behind_they_are(call: Caller) -> None:
    groups = f"{S}/reader-groups"
    await call.note({"writer": "a", "time": 5, "position": {"0": 3}})
    await call.note({"writer": "a", "time": 9, "position": {"0": 8}})
    for group, offset in (("new", 0), ("behind", 3), ("level", 8)):
        await call.put(f"{groups}/{group}/readers/r", {"position": {"0": offset, "1": 2}})
    await call.post(f"{groups}/level/readers/r/offline", {})
    page = (await call.get(groups)).json()
    pages = [(await call.get(groups, limit=2, after=name)).json() for name in ("", "level")]
    one = (await call.get(f"{groups}/behind")).json()

    rows = page["groups"]
    shown = [(each["group"], each["readers"], each["behind"]["default"]) for each in rows]
    assert shown == [("behind", 1, 4), ("level", 0, 0), ("new", 1, None)]
    assert [(each["segments"], each["reported_at"]) for each in rows] == [(2, WALL)] * 3
    assert [[each["group"] for each in page["groups"]] for page in pages] == [
        ["behind", "level"],
        ["new"],
    ]
    assert [page["next"] for page in pages] == ["level", None]
    assert rows[0]["windows"] == one["windows"]
    assert (page["now"], one["behind"], one["now"]) == (WALL, {"default": 4}, WALL)


async def test_a_silent_stream_comes_first_if_a_writer_is_missing_and_last_after_a_day(
    call: Caller, time: GivenTime
) -> None:
    """Nothing vouches for its time, and rows may be late."""
    await made(call, "passed", "absent", "lone", "finished", "held", writer_timeout_ms=10**12)
    await call.put("/v1/streams/absent", {"expected_writers": ["e"]})
    for name in ("absent", "lone", "passed"):
        await call.put(f"/v1/streams/{name}", {"writer_timeout_ms": 1000})
    await note(call, "passed", {"writer": "a", "time": 1}, {"writer": "b", "time": 2})
    await note(call, "lone", {"writer": "a", "time": 1})
    await note(call, "finished", {"writer": "a"}, {"writer": "a", "state": "finished"})
    await note(call, "held", {"writer": "a", "time": 1}, {"writer": "b", "time": 2})
    for _ in range(2):  # first the overtaken ones
        serve_for(call.controller, time, 60_000)
        await call.controller._committer.submit(exclude_silent_writers)
    today = await named(call)
    shown = (await call.get("/v1/overview")).json()
    serve_for(call.controller, time, 24 * 60 * MINUTE)

    assert today == ["absent", "passed", "held", "lone", "finished", "s"]
    silences = {row["name"]: row["silence"] for row in shown["streams"]}
    assert {name: each for name, each in silences.items() if each} == {
        **dict.fromkeys(("absent", "passed"), "missing"),
        "lone": "silent",
    }
    assert shown["conditions"] == {"missing": 2, "holds": 1, "silent": 1, "quiet": 2}
    assert await named(call) == ["absent", "passed", "held", "finished", "s", "lone"]
    assert (await call.get("/v1/streams/lone/explain")).json()["silence"] == "ended"


async def test_a_stream_with_a_mark_to_come_is_not_silent(call: Caller, time: GivenTime) -> None:
    """The interval between two marks is not over."""
    await call.put(S, {"mark_interval_ms": 120_000, "writer_timeout_ms": 1000})
    await call.note({"writer": "a", "time": 5}, {"writer": "b", "time": 5, "timeout_ms": 10**6})
    serve_for(call.controller, time, 60_000)
    await call.controller._committer.submit(exclude_silent_writers)
    await call.note({"writer": "b", "time": 9}, {"writer": "b", "state": "finished"})
    found = (await call.get(f"{S}/explain")).json()

    assert (found["decision"], found["next_lower"], found["silence"]) == ("advance", 9, None)
