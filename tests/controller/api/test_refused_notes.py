"""Refused notes are counted first; if all notes of a request are refused, so is the request."""

from tests.support.http import Caller, problem

NOTES = "/v1/streams/s/notes"
FIRST = {"writer": "UA", "time": 5, "position": {"0": 5}}
LATE = {"writer": "UA", "time": 4}
ELSEWHERE = {"writer": "UA", "time": 9, "domain": "nope"}


async def test_the_answer_begins_with_how_many_notes_were_refused(call: Caller) -> None:
    """None, or some beside others that are durable: the status is 200."""
    first = await call.post(NOTES, {"notes": [FIRST]})
    second = await call.post(NOTES, {"notes": [LATE, {"writer": "UA", "time": 6}, ELSEWHERE]})

    assert [(each.status_code, each.text) for each in (first, second)] == [
        (200, '{"refused":0,"results":[{"status":"accepted","lower":5}]}'),
        (
            200,
            (
                '{"refused":2,"results":[{"status":"invalid_time","last":5},'
                '{"status":"accepted","lower":6},{"status":"unknown_domain","last":null}],'
                '"domains":["default"]}'
            ),
        ),
    ]


async def test_a_request_with_all_notes_refused_is_a_problem(call: Caller) -> None:
    """So callers that only look at the status learn it; the results give the reason, as always."""
    await call.note(FIRST)
    answer = await call.post(NOTES, {"notes": [LATE, LATE, ELSEWHERE]})

    behind = {"status": "invalid_time", "last": 5}
    assert problem(answer) == (
        422,
        "notes_refused",
        "no note was accepted: 2 invalid_time, 1 unknown_domain",
    )
    body = answer.json()
    assert (body["refused"], body["results"], body["domains"]) == (
        3,
        [behind, behind, {"status": "unknown_domain", "last": None}],
        ["default"],
    )


async def test_the_document_describes_requests_with_all_notes_refused(call: Caller) -> None:
    """The problem has the members of the answer beside those of every problem."""
    document = (await call.get("/openapi.json")).json()
    shapes = document["components"]["schemas"]
    answers = document["paths"]["/v1/streams/{stream}/notes"]["post"]["responses"]
    described = answers["422"]["content"]["application/problem+json"]["schema"]

    refused = shapes["NotesRefused"]
    assert described == {
        "anyOf": [
            {"$ref": "#/components/schemas/NotesRefused"},
            {"$ref": "#/components/schemas/Problem"},
        ]
    }
    assert set(refused["required"]) == {*shapes["Problem"]["required"], "refused", "results"}
    assert shapes["NotesAnswer"]["required"] == ["refused", "results"]
