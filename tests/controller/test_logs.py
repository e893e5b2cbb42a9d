"""The log of a stream's positions: the first that a note names (S21)."""

from typing import Any

import pytest

from noted_time import Accepted, Note, Refused
from noted_time.values import OtherLog
from tests.support.controllers import Watched, deliver, running, serving
from tests.support.http import Caller, problem

S = "/v1/streams/s"
BERLIN, LIMA = "l-Nn1Hl_QmqdyIVaRTaVpA", "AvWge3ZRTjyVqTlEMLwNvQ"
REFUSED = {"status": "another_log", "last": None, "known": BERLIN, "given": LIMA}


def noting(writer: str, time: int, log: str | None) -> dict[str, Any]:
    return {"writer": writer, "time": time, "position": {"0": time}, "log": log}


async def test_another_log_than_the_first_is_refused_and_changes_nothing(call: Caller) -> None:
    first, other, without = await call.note(
        {**noting("a", 5, BERLIN), "session": "one", "takes_over": True},
        {**noting("a", 9, LIMA), "session": "two", "takes_over": True},
        noting("a", 7, None),
    )
    member = (await call.get(f"{S}/writers/a")).json()
    refused = await call.post(f"{S}/notes", {"notes": [noting("b", 9, LIMA)]})

    assert (first["status"], other, without["status"]) == ("accepted", REFUSED, "accepted")
    assert (member["times"], member["session"]["session"]) == ({"default": 7}, "one")
    assert problem(refused)[2] == (
        f"no note was accepted: 1 another_log; its positions are of log {BERLIN}, and this is log "
        f"{LIMA}"
    )
    assert refused.json()["results"] == [REFUSED]
    assert (await call.get(f"{S}/writers/b")).status_code == 404


async def test_a_log_is_kept_over_a_restart(store: Watched) -> None:
    async with serving(store) as controller:
        await deliver(controller, Note("a", -(2**63) + 1, {0: 2**62 + 1}, log=LIMA))
        await deliver(controller, Note("a", 5, {0: 5}, log=BERLIN))
    async with running(store.reopened()) as controller:
        results = await controller.note("s", [Note("a", 7, log=LIMA), Note("a", 8, log=BERLIN)])

    assert results == [Refused("another_log", OtherLog(BERLIN, LIMA)), Accepted(8)]


async def test_a_log_with_the_same_offsets_is_taken_beside_the_former_one(call: Caller) -> None:
    """An operator does this, and it is recorded."""
    await call.note(noting("a", 5, BERLIN))
    same = {"log": LIMA, "same_offsets": True}
    bare = await call.put(S, {"log": LIMA})
    would = (await call.put(f"{S}?dry_run=true", same)).json()
    before = (await call.get(S)).json()["logs"]
    became = (await call.put(f"{S}?comment=linked", same)).json()
    await call.put(S, same)
    results = await call.note(noting("a", 6, LIMA), noting("a", 7, BERLIN), noting("a", 8, "x"))
    changes = (await call.get(f"{S}/changes")).json()["changes"]

    assert problem(bare)[:2] == (422, "rejected")
    assert "a topic that was created again needs a new stream" in problem(bare)[2]
    assert (before, would["logs"], became["logs"]) == ([BERLIN], [BERLIN, LIMA], [BERLIN, LIMA])
    assert [each["status"] for each in results] == ["accepted", "accepted", "another_log"]
    assert results[-1]["known"] == LIMA
    shown = [(each["was"], each["is"], each["comment"]) for each in changes[:-1]]
    assert shown == [({"logs": [BERLIN]}, {"logs": [BERLIN, LIMA]}, "linked")]


async def test_answers_that_carry_marks_name_the_logs(call: Caller) -> None:
    """A reader compares them with its log."""
    await call.note(noting("a", 5_000, BERLIN))
    asked = ("", "/marks", "/cut?complete_to=5000", "/windows?size_ms=1000&after=1000")
    answers = [(await call.client.get(S + each)).json() for each in asked]

    assert [each["logs"] for each in answers] == [[BERLIN]] * 4


@pytest.mark.parametrize("log", ["", "a b", "l+Nn1Hl/QmqdyIVaRTaVpA", "x" * 65, 5])
async def test_what_is_no_id_is_refused(call: Caller, log: object) -> None:
    """Clients in C and Python spell ids differently."""
    notes = await call.post(f"{S}/notes", {"notes": [{"writer": "a", "log": log}]})
    settings = await call.put(S, {"log": log, "same_offsets": True})

    assert (problem(notes)[:2], problem(settings)[:2]) == ((422, "invalid_request"),) * 2
    assert "log" in str(notes.json()["errors"][0]["where"])
