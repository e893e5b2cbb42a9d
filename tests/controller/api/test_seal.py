"""The end of a stream over HTTP."""

from typing import Any

from tests.support.http import Caller, problem

S = "/v1/streams/s"
WALL = 1_700_000_000_000
MARK: dict[str, Any] = {
    "seq": 2,
    "lower": 7,
    "upper": 6,
    "cut": {"0": 9, "1": 4},
    "written_at": WALL,
    "excluded": ["a"],
    "upper_is_bound": False,
    "final": True,
}


async def seal(call: Caller, **body: Any) -> Any:  # noqa: ANN401 - JSON
    """Seal the stream after one note of a writer, beside one that only joined; returns the JSON."""
    await call.note({"writer": "a", "time": 5, "position": {"0": 9}, "max_time": 6})
    await call.note({"writer": "idle"}, {"writer": "idle", "state": "idle"})
    answer = await call.post(f"{S}/seal", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_sealed_stream_shows_its_end(call: Caller) -> None:
    """In the answer, the stream, with the marks, and in the window of a reader of everything."""
    answer = await seal(call, cut={"1": 4})
    stream = (await call.get(S)).json()
    marks = (await call.get(f"{S}/marks", after=1, wait_ms=30_000)).json()
    past = (await call.get(f"{S}/marks", after=2, wait_ms=30_000)).json()
    cuts = [(await call.get(f"{S}/cut", complete_to=t)).json() for t in (7, 8, 2**62)]
    windows = [
        (await call.post(f"{S}/time-window", {"position": p})).json()["sealed"]
        for p in ({"0": 9}, {"0": 9, "1": 4})
    ]

    assert answer == stream | {"never_noted": ["idle"]}
    assert (stream["seal"], stream["marks"]["default"]) == (
        {"at": WALL, "cut": {"0": 9, "1": 4}},
        MARK,
    )
    ends = {"sealed": True, "final_cut": {"0": 9, "1": 4}}
    assert marks | {"marks": [MARK]} | ends == marks
    assert past | {"marks": []} | ends == past
    missing = {"writer": "a", "reason": "sealed", "since": WALL, "time": 5}
    assert [each | MARK | {"missing": [missing]} for each in cuts] == cuts
    assert windows == [False, True]


async def test_an_open_stream_is_not_sealed(call: Caller) -> None:
    """As in all answers that could have it."""
    await call.note({"writer": "a", "time": 5, "position": {"0": 9}})
    stream = (await call.get(S)).json()
    marks = (await call.get(f"{S}/marks")).json()
    window = (await call.post(f"{S}/time-window", {"position": {"0": 99}})).json()

    found = (stream["seal"], marks["sealed"], marks["final_cut"], window["sealed"])
    assert found == (None, False, None, False)


async def test_a_sealed_stream_takes_nothing_more(call: Caller) -> None:
    """Notes have a status of their own, scale events and another seal are refused."""
    await seal(call)
    notes = await call.note({"writer": "a", "time": 9}, {"writer": "b"})
    scale = await call.post(f"{S}/scale", {"sealed": {"0": 9}, "created": {"2": [0]}})
    again = await call.post(f"{S}/seal", {})
    other = await call.post(f"{S}/seal", {"cut": {"0": 10}})

    assert notes == [{"status": "sealed", "last": None}] * 2
    assert problem(scale)[:2] == (422, "sealed")
    assert again.status_code == 200
    assert problem(other)[:2] == (409, "already_sealed")


async def test_views_show_that_a_stream_is_sealed(call: Caller) -> None:
    """The decision, a dry run, the overview, the segments, the writers and the record of it."""
    await call.note({"writer": "b", "time": 3, "position": {"3": 0}})
    await seal(call, cut={"1": 4})
    explained = (await call.get(f"{S}/explain", writer_timeout_ms=1)).json()
    overview = (await call.get("/v1/overview")).json()["streams"][0]
    segments = (await call.get(f"{S}/segments")).json()["segments"]
    states = (await call.get(f"{S}/writers")).json()["states"]
    change = (await call.get(f"{S}/changes", limit=1)).json()["changes"][0]

    assert (explained["decision"], explained["would"]["decision"]) == ("sealed", "sealed")
    assert [domain["decision"] for domain in overview["domains"]] == ["sealed"]
    ends = [(each["segment"], each["state"], each["last_offset"]) for each in segments]
    assert ends == [(0, "sealed", 9), (1, "sealed", 4), (3, "sealed", 0)]
    assert states == {"live": 0, "idle": 0, "finished": 3, "excluded": 0}
    assert (change["action"], change["is"]["cut"]) == ("sealed", {"0": 9, "1": 4, "3": 0})
