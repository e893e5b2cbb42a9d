from typing import Any

import pytest

from controller.api import middleware
from controller.api.gate.admitted import StreamRequest
from controller.api.routes.readers import answer_marks
from controller.api.wire.responses import Answer
from controller.service.controller import Controller
from noted_time import StreamSettings
from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller, as_json

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
NOTE = {"writer": "UA", "time": 5, "position": {"0": 10, "3": 7}, "max_time": 8}


async def test_a_stream_is_created_with_the_defaults(call: Caller) -> None:
    answer = await call.put("/v1/streams/flights.2013", {})

    body, settings = answer.json(), as_json(StreamSettings())
    stream = {"name": "flights.2013", "id": body["id"], "marks": {"default": None}, "seal": None}
    lists: dict[str, Any] = {"scale_events": [], "logs": []}
    assert (answer.status_code, body) == (201, settings | stream | lists)


async def test_a_stream_is_updated(call: Caller) -> None:
    before = (await call.get(S)).json()
    answer = await call.put(S, {"returning_writer": "exclude"})

    assert (answer.status_code, answer.json()) == (200, before | {"returning_writer": "exclude"})


async def test_a_stream_shows_its_last_mark_per_domain(call: Caller) -> None:
    await call.put(S, {"domains": ["default", "other"]})
    await call.note(NOTE)

    assert (await call.get(S)).json()["marks"] == {"default": MARK, "other": None}


async def test_streams_are_listed_a_page_at_a_time(call: Caller) -> None:
    for name in ("c", "a", "b"):
        await call.put(f"/v1/streams/{name}", {})
    first = (await call.get("/v1/streams", limit=3)).json()
    second = (await call.get("/v1/streams", limit=3, after=first["next"])).json()

    pages = [([s["name"] for s in page["streams"]], page["next"]) for page in (first, second)]
    assert pages == [(["a", "b", "c"], "c"), (["s"], None)]


async def test_int64_is_kept_exactly(call: Caller) -> None:
    await call.put(S, {"max_time_ahead_ms": None, "max_offset_jump": None})
    least, largest, end = 1 - 2**63, 2**63 - 2, 2**63 - 1
    await call.note({"writer": "a", "time": least, "position": {"0": end}})
    await call.note({"writer": "a", "time": largest, "position": {str(10**18 - 1): end}})
    marks = (await call.get(f"{S}/marks")).json()["marks"]

    shown = [(mark["lower"], mark["cut"]) for mark in marks]
    assert shown == [(least, {"0": end}), (largest, {"0": end, str(10**18 - 1): end})]


async def test_writers_are_listed_the_holder_first(call: Caller, time: GivenTime) -> None:
    await call.note({"writer": "a", "time": 9, "position": {"0": 4}}, {"writer": "gone"})
    await call.note({"writer": "gone", "state": "finished"}, {"writer": "z"})
    serve_for(call.controller, time, 300)
    await call.note({"writer": "a", "time": 12})
    page = (await call.get(f"{S}/writers", limit=2)).json()
    rest = (await call.get(f"{S}/writers", limit=2, start=page["next"])).json()

    row: dict[str, Any] = {"state": "live", "times": {}, "position": {}, "noted_at": WALL}
    row |= {"excluded": None, "timeout_ms": None, "domains": None, "held_until": None, "late": {}}
    row |= {"session": None, "held": None, "observes": False, "held_by": None, "held_for": None}
    row |= {"because": [], "vouching": {"default": [{"from_seq": 2, "until": None}]}}
    row |= {"silent_ms": 300, "is_silent": False, "out_at": None}
    row |= {"times_out_in_ms": None, "lower_without": None, "is_expected": False}
    z = row | {"writer": "z", "holding_since": WALL}
    z |= {"times_out_in_ms": 59_700, "lower_without": 12, "out_at": WALL + 60_000}
    a = row | {"writer": "a", "times": {"default": 12}, "position": {"0": 4}}
    a |= {"noted_at": WALL + 300, "holding_since": None, "silent_ms": 0}
    a |= {"vouching": {"default": [{"from_seq": 1, "until": None}]}}
    gone = row | {"writer": "gone", "state": "finished", "holding_since": None, "silent_ms": None}
    states = {"live": 2, "idle": 0, "finished": 1, "excluded": 0}
    about = {"now": WALL + 300, "total": 3, "states": states}
    assert (page, rest) == (
        {**about, "writers": [z, a], "next": 2},
        {**about, "writers": [gone], "next": None},
    )


async def test_marks_are_json_whatever_is_accepted(call: Caller) -> None:
    """Also where a client asks for server-sent events."""
    await call.note(NOTE)
    events = {"accept": "text/event-stream"}
    answer = await call.client.get(f"{S}/marks", headers=events)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == (await call.get(f"{S}/marks")).json()


async def test_a_time_that_is_not_complete_yet_is_a_404(call: Caller) -> None:
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


async def test_health_is_reported(call: Caller) -> None:
    answers = [await call.get("/healthz"), await call.get("/readyz")]

    answered = [(answer.status_code, answer.json()) for answer in answers]
    assert answered == [(200, {"status": "ok"}), (200, {"status": "ready"})]


async def test_metrics_count_notes_marks_and_holders(call: Caller) -> None:
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
    answer = await call.get("/v1/access")

    common = {"tokens": False, "token": None, "administer": True, "read_all": True}
    assert common.items() <= answer.json().items()
