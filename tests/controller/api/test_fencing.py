"""Two processes under one writer name, over HTTP."""

from tests.support.http import Caller

S = "/v1/streams/s"
WALL = 1_700_000_000_000
OLD = {"writer": "a", "session": "old", "takes_over": True, "label": "host-a:1"}
NEW = {"writer": "a", "session": "new", "takes_over": True, "label": "<b>host-b:2</b>"}
HELD = {"session": "new", "label": "<b>host-b:2</b>", "since": WALL}


async def test_the_answer_to_a_fenced_note_names_the_owner_of_the_name(call: Caller) -> None:
    """Beside the notes of the same request that count."""
    results = await call.note(OLD | {"time": 1}, NEW | {"time": 2}, OLD | {"time": 3})

    assert results == [
        {"status": "accepted", "lower": 1},
        {"status": "accepted", "lower": 2, "took_over": ["old"]},
        {"status": "fenced", "last": HELD},
    ]


async def test_a_writer_is_shown_with_its_session_and_explain_names_both(call: Caller) -> None:
    """By the labels they gave; pages that show them escape them."""
    await call.note(OLD, NEW, OLD | {"takes_over": False, "label": ""})
    row = (await call.get(f"{S}/writers/a")).json()
    explained = (await call.get(f"{S}/explain")).json()

    detail = (
        "is noted by two processes: <b>host-b:2</b> has the name since 2023-11-14T22:13:20Z, "
        "and host-a:1 was fenced at 2023-11-14T22:13:20Z."
    )
    assert row["session"] == HELD
    assert explained["hints"] == [{"writer": "a", "hint": "fenced", "detail": detail}]
