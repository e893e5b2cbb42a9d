from typing import Any

import pytest

from controller.api import middleware
from controller.api.gate.admitted import StreamRequest
from controller.api.routes.readers import answer_marks
from controller.api.wire.answers import Answer
from controller.service.controller import Controller
from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller

S = "/v1/streams/s"
WALL = 1_700_000_000_000
MARK = {
    "seq": 1,
    "lower": 5,
    "upper": 8,
    "cut": {"0": 10, "3": 7},
    "written_at": WALL,
    "excluded": [],
    "upper_is_bound": True,
    "final": False,
}
NO_BACKLOG: dict[str, Any] = {"backlog": False, "because": [], "since": None}
NOTE = {"writer": "UA", "time": 5, "position": {"0": 10, "3": 7}, "max_time": 8}


async def test_a_stream_is_created_with_the_defaults(call: Caller) -> None:
    """201, and every setting in the answer."""
    answer = await call.put("/v1/streams/flights.2013", {})

    body = answer.json()
    assert (answer.status_code, body) == (
        201,
        {
            "name": "flights.2013",
            "id": body["id"],
            "writer_timeout_ms": 60_000,
            "mark_interval_ms": 200,
            "returning_writer": "hold",
            "domains": ["default"],
            "mark_retention_ms": 604_800_000,
            "max_time_ahead_ms": 3_600_000,
            "writer_retention_ms": 86_400_000,
            "expected_writers": [],
            "reader_timeout_ms": 86_400_000,
            "max_segments": 4096,
            "max_offset_jump": 10**12,
            "marks": {"default": None},
            "scale_events": [],
            "seal": None,
            "logs": [],
            "understands": [],
        },
    )


async def test_a_stream_is_updated(call: Caller) -> None:
    """200, the same id, and what was not named as before."""
    before = (await call.get(S)).json()
    answer = await call.put(S, {"returning_writer": "exclude"})

    assert (answer.status_code, answer.json()) == (200, before | {"returning_writer": "exclude"})


async def test_a_stream_shows_its_last_mark_per_domain(call: Caller) -> None:
    """`null` if a domain has none yet."""
    await call.put(S, {"domains": ["default", "other"]})
    await call.note(NOTE)

    assert (await call.get(S)).json()["marks"] == {"default": MARK, "other": None}


async def test_streams_are_listed_a_page_at_a_time(call: Caller) -> None:
    """By name; `next` leads on and ends as null."""
    for name in ("c", "a", "b"):
        await call.put(f"/v1/streams/{name}", {})
    first = (await call.get("/v1/streams", limit=3)).json()
    second = (await call.get("/v1/streams", limit=3, after=first["next"])).json()

    pages = [([s["name"] for s in page["streams"]], page["next"]) for page in (first, second)]
    assert pages == [(["a", "b", "c"], "c"), (["s"], None)]


async def test_notes_are_answered_in_order(call: Caller) -> None:
    """Accepted with the lower of that moment, or refused with what was stored."""
    results = await call.note(
        NOTE,
        {"writer": "UA", "time": 4},
        {"writer": "UA", "position": {"0": 9, "3": 6, "4": 1}},
        {"writer": "UA", "time": 9, "domain": "nope"},
        {"writer": "UA", "time": 9, "state": "idle"},
        {"writer": "DL"},
    )

    assert results == [
        {"status": "accepted", "lower": 5},
        {"status": "invalid_time", "last": 5},
        {"status": "invalid_position", "last": {"0": 10, "3": 7}},
        {"status": "unknown_domain", "last": None},
        {"status": "accepted", "lower": 9},
        {"status": "accepted", "lower": 9, "timeout_ms": 60_000},
    ]


async def test_int64_is_kept_exactly(call: Caller) -> None:
    """The least and the largest time, and the largest offset, survive the way in and out."""
    await call.put(S, {"max_time_ahead_ms": None, "max_offset_jump": None})
    least, largest, end = 1 - 2**63, 2**63 - 2, 2**63 - 1
    await call.note({"writer": "a", "time": least, "position": {"0": end}})
    await call.note({"writer": "a", "time": largest, "position": {str(10**18 - 1): end}})
    marks = (await call.get(f"{S}/marks")).json()["marks"]

    shown = [(mark["lower"], mark["cut"]) for mark in marks]
    assert shown == [(least, {"0": end}), (largest, {"0": end, str(10**18 - 1): end})]


async def test_writers_are_listed_the_holder_first(call: Caller, time: GivenTime) -> None:
    """Each with its state, times, position and since when it holds, in Unix ms."""
    await call.note({"writer": "a", "time": 9, "position": {"0": 4}}, {"writer": "gone"})
    await call.note({"writer": "gone", "state": "finished"}, {"writer": "z"})
    serve_for(call.controller, time, 300)
    await call.note({"writer": "a", "time": 12})
    page = (await call.get(f"{S}/writers", limit=2)).json()
    rest = (await call.get(f"{S}/writers", limit=2, start=page["next"])).json()

    row: dict[str, Any] = {"state": "live", "times": {}, "position": {}, "noted_at": WALL}
    row |= {"excluded": None, "timeout_ms": None, "domains": None, "held_until": None, "late": {}}
    row |= {"session": None, "held": None, "observes": False, "held_by": None, "held_for": None}
    row |= {"silent_ms": 300, "is_silent": False, "out_at": None}
    row |= {"times_out_in_ms": None, "lower_without": None, "is_expected": False}
    z = row | {"writer": "z", "holding_since": WALL}
    z |= {"times_out_in_ms": 59_700, "lower_without": 12, "out_at": WALL + 60_000}
    a = row | {"writer": "a", "times": {"default": 12}, "position": {"0": 4}}
    a |= {"noted_at": WALL + 300, "holding_since": None, "silent_ms": 0}
    gone = row | {"writer": "gone", "state": "finished", "holding_since": None, "silent_ms": None}
    states = {"live": 2, "idle": 0, "finished": 1, "excluded": 0}
    about = {"now": WALL + 300, "total": 3, "states": states}
    assert (page, rest) == (
        {**about, "writers": [z, a], "next": 2},
        {**about, "writers": [gone], "next": None},
    )


async def test_marks_are_given_after_a_seq(call: Caller) -> None:
    """In order, at most `limit`, with the id of the stream they belong to."""
    await call.note(NOTE, {"writer": "UA", "time": 6}, {"writer": "UA", "time": 7})
    stream_id = (await call.get(S)).json()["id"]
    answer = (await call.get(f"{S}/marks", after=1, limit=1)).json()

    second = MARK | {"seq": 2, "lower": 6}
    about = {"stream_id": stream_id, "scale_events": 0}
    about |= {"sealed": False, "final_cut": None, "quiet": False, "has_more": True, "logs": []}
    about |= {"ahead_of_stream": False}
    assert answer == {**about, "marks": [second]}


async def test_marks_are_json_whatever_is_accepted(call: Caller) -> None:
    """Also where a client asks for server-sent events, which earlier versions had."""
    await call.note(NOTE)
    events = {"accept": "text/event-stream"}
    answer = await call.client.get(f"{S}/marks", headers=events)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == (await call.get(f"{S}/marks")).json()


async def test_a_position_becomes_a_time_window(call: Caller) -> None:
    """Both bounds with the seq of their marks; null if there is none."""
    await call.note(NOTE)
    await call.note({"writer": "UA", "time": 6, "position": {"0": 20}, "max_time": 30})
    at_first = await call.post(f"{S}/time-window", {"position": {"0": 10, "3": 7}})
    before = await call.post(f"{S}/time-window", {"position": {"0": 9}, "domain": "default"})

    assert (at_first.json(), before.json()) == (
        {"lower": 5, "upper": 30, "lower_seq": 1, "upper_seq": 2, "sealed": False},
        {"lower": None, "upper": 8, "lower_seq": None, "upper_seq": 1, "sealed": False},
    )


async def test_the_cut_of_a_time_is_the_first_mark_complete_to_it(call: Caller) -> None:
    """Read up to its cut and you have all below that time."""
    await call.note(NOTE, {"writer": "UA", "time": 50})
    answer = await call.get(f"{S}/cut", complete_to=4)

    lacks = {"missing": [], "missing_count": 0, "missing_is_known": False}
    lacks |= {"late": [], "late_count": 0, "late_is_known": True, "before_first_mark": True}
    assert (answer.status_code, answer.json()) == (
        200,
        MARK | lacks | {"has_position": True, "logs": []},
    )


async def test_a_time_that_is_not_complete_yet_is_a_404(call: Caller) -> None:
    """With the current lower in the problem."""
    await call.note(NOTE)
    answer = await call.get(f"{S}/cut", complete_to=6)

    assert (answer.status_code, answer.json()) == (
        404,
        {
            "type": "urn:noted-time:problem:not_complete_yet",
            "title": "Not complete yet",
            "status": 404,
            "code": "not_complete_yet",
            "detail": "time 6 is not complete yet: the lower is 5",
            "complete_to": 6,
            "lower": 5,
        },
    )


NOT_BEHIND = {"behind": 0, "rank": 0.0}


async def test_a_reader_group_has_one_position_and_window(call: Caller) -> None:
    """Readers report, one goes offline, and the group is where its segments are."""
    await call.note(NOTE)
    await call.put(f"{S}/reader-groups/g/readers/a", {"position": {"0": 12}})
    await call.put(f"{S}/reader-groups/g/readers/b", {"position": {"3": 7}})
    window = {"lower": 5, "upper": None, "lower_seq": 1, "upper_seq": None, "sealed": False}
    together = (await call.get(f"{S}/reader-groups/g")).json()
    back = await call.post(f"{S}/reader-groups/g/readers/a/offline", {"position": {"0": 9}})

    none = {"lower": None, "upper": 8, "lower_seq": None, "upper_seq": 1, "sealed": False}
    assert (together, back.json()) == (
        {
            "position": {"0": 12, "3": 7},
            "readers": {"a": {"0": 12}, "b": {"3": 7}},
            "windows": {"default": window},
            "states": {"default": "live"},
            "now": WALL,
            "behind": {"default": 0},
            "lags": {"default": {"a": NOT_BEHIND, "b": NOT_BEHIND}},
            "backlog_policy": None,
            **NO_BACKLOG,
        },
        {
            "position": {"0": 9, "3": 7},
            "readers": {"b": {"3": 7}},
            "windows": {"default": none},
            "states": {"default": "live"},
            **NO_BACKLOG,
        },
    )


async def test_a_stream_scales(call: Caller) -> None:
    """The event is shown with the stream, and a repeat changes nothing."""
    await call.note(NOTE)
    event = {"sealed": {"0": 500}, "created": {"20": [0], "21": [0]}}
    answers = [await call.post(f"{S}/scale", event) for _ in range(2)]

    shown = [(answer.status_code, answer.json()["scale_events"]) for answer in answers]
    assert shown == [(200, [event])] * 2


async def test_explain_names_the_writers_time_waits_for(call: Caller, time: GivenTime) -> None:
    """Since when, until when, and where time would be without each."""
    named = {"position": {"0": 1}}
    await call.note({"writer": "slow", "time": 5, **named}, {"writer": "a", "time": 9, **named})
    serve_for(call.controller, time, 400)
    answer = (await call.get(f"{S}/explain")).json()

    assert answer == {
        "now": WALL + 400,
        "decision": "hold",
        "lower": 5,
        "written_at": WALL,
        "next_lower": None,
        "waiting_for": [
            {"writer": "slow", "time": 5, "held_for_ms": 400, "times_out_in_ms": 59_600}
        ],
        "holders": 1,
        "lower_without": {"slow": 9},
        "by_itself": {
            "at": WALL + 60_000,
            "lower": 9,
            "writers": ["slow"],
            "exclusions": 1,
        },
        "would": None,
        "hints": [],
        "silence": None,
        "reader": None,
        "sentences": answer["sentences"],
    }
    assert answer["sentences"][0] == "s holds at 5: it waits for 1 writer."


async def test_health_is_reported(call: Caller) -> None:
    """Alive and ready, each with a word."""
    answers = [await call.get("/healthz"), await call.get("/readyz")]

    answered = [(answer.status_code, answer.json()) for answer in answers]
    assert answered == [(200, {"status": "ok"}), (200, {"status": "ready"})]


async def test_metrics_count_notes_marks_and_holders(call: Caller) -> None:
    """In Prometheus' text format, by status, stream and domain."""
    await call.note(NOTE, {"writer": "UA", "time": 1}, {"writer": "slow"})
    answer = await call.get("/metrics")

    wanted = {
        'noted_time_notes_total{status="accepted"} 2.0',
        'noted_time_notes_total{status="invalid_time"} 1.0',
        'noted_time_marks_total{domain="default",stream="s"} 1.0',
        'noted_time_holders{domain="default",stream="s"} 2.0',
        'noted_time_members{state="live",stream="s"} 2.0',
        'noted_time_lower{domain="default",stream="s"} 5.0',
    }
    assert wanted - set(answer.text.splitlines()) == set()


@pytest.mark.parametrize(
    ("path", "way"),
    [
        (f"{S}/marks", "short"),
        (f"{S}/marks?after=1&limit=1&wait_ms=0&domain=default", "short"),
        (f"{S}/marks?after=7", "short"),
        (f"{S}/marks?domain=absent", "short"),
        ("/v1/streams/absent/marks", "short"),
        (f"{S}/marks?limit=0", "long"),
        (f"{S}/marks?after=1&after=2", "long"),
        (f"{S}/marks?after=", "long"),
        (f"{S}/marks?afetr=1", "long"),
        (f"{S}/marks?wait_ms=1e3", "long"),
        (f"{S}/marks?domain=..", "long"),
        (f"{S}/marks/", "long"),
    ],
)
async def test_marks_are_answered_alike_with_the_framework_and_without_it(
    call: Caller, monkeypatch: pytest.MonkeyPatch, path: str, way: str
) -> None:
    """What is right takes the short way; the framework names what is not."""
    taken: list[str] = []

    async def watched(controller: Controller, request: StreamRequest) -> Answer | None:
        answer = await answer_marks(controller, request)
        taken.append("long" if answer is None else "short")
        return answer

    async def never(_: Controller, __: StreamRequest) -> None:
        return None

    await call.note(NOTE, NOTE | {"time": 6, "position": {"0": 11, "3": 7}})
    monkeypatch.setattr(middleware, "answer_marks", watched)
    first = await call.client.get(path)
    monkeypatch.setattr(middleware, "answer_marks", never)
    second = await call.client.get(path)

    assert taken == [way]
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.headers == second.headers


async def test_without_tokens_anybody_may_do_everything(call: Caller) -> None:
    """So the page asks for none."""
    answer = await call.get("/v1/access")

    common = {"tokens": False, "token": None, "administer": True, "read_all": True}
    assert common.items() <= answer.json().items()
