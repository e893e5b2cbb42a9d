"""The list of alignments if others own some of them."""

import signal
from typing import Any

import httpx
import pytest

from controller.store.port import AlignmentRecord, Transaction
from noted_time.wing import AlignmentSettings
from tests.replicas.played import HERE, THERE, TROUBLES, Played
from tests.replicas.served import stream_of
from tests.support.calls import HTTP
from tests.support.processes import ServeProcess
from tests.support.waiting import wait_until

ODD = [*range(1, 64, 2)]
SHOWN = ("name", "answered", "max_drift", "bound", "held_by")


@pytest.fixture
async def both(this: Played) -> Played:
    """A replica with an alignment of its own, held by `m` at 5, and one that is the other's."""
    this.store.commit(Transaction({}, alignments=[AlignmentRecord(THERE, AlignmentSettings(20))]))
    await this.controller.alignments.put(HERE, AlignmentSettings(10))
    this.controller.alignments.report(HERE, "m", 5, "live")
    return this


async def seen(this: Played, **query: Any) -> tuple[list[tuple[Any, ...]], str | None]:  # noqa: ANN401
    """Return the list's row of each alignment, and where it continues."""
    page = (await this.client.get("/v1/alignments", params=query)).json()
    return [tuple(row[name] for name in SHOWN) for row in page["alignments"]], page["next"]


def listing(*rows: dict[str, Any]) -> httpx.Response:
    """Return the answer of the other replica."""
    return httpx.Response(200, json={"buckets": ODD, "alignments": rows})


async def test_each_replica_reports_its_own_alignments(both: Played) -> None:
    """It is asked once, by a marked request; the pages are in the order of the names."""
    row = {"name": THERE, "answered": True, "max_drift": 20, "bound": 27, "held_by": "far"}
    row |= {"member_timeout_ms": 5000, "drift": 0, "members": {}}
    row |= {"members_counted": 0, "members_total": 0}
    both.owner.reply = lambda _: listing(row)
    first, second = await seen(both, limit=1), await seen(both, limit=1, after=min(HERE, THERE))

    mine, theirs = (HERE, True, 10, 15, "m"), (THERE, True, 20, 27, "far")
    assert [first, second] == [([min(mine, theirs)], min(HERE, THERE)), ([max(mine, theirs)], None)]
    assert [each.headers["noted-time-forwarded"] for each in both.owner.asked] == ["1", "1"]


async def test_an_alignment_that_no_replica_reports_has_its_settings(both: Played) -> None:
    """As the database has them, and no bound that would be taken for none."""
    both.owner.trouble = [*TROUBLES[:1]]
    rows, _ = await seen(both)

    assert sorted(rows) == sorted([(HERE, True, 10, 15, "m"), (THERE, False, 20, None, None)])


async def test_a_marked_request_is_answered_with_ones_own(both: Played) -> None:
    """So requests do not go round in circles."""
    marked = {"noted-time-forwarded": "1"}
    part = (await both.client.get("/v1/alignments", headers=marked)).json()

    assert [each["name"] for each in part["alignments"]] == [HERE]
    assert (len(part["buckets"]), both.owner.asked) == (32, [])


@pytest.mark.acceptance
def test_whichever_replica_is_asked_knows_bound_and_holder(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """Also after the controller of one died: with its next report the member is back."""
    near, far = stream_of(a, "near"), stream_of(b, "far")

    def report(replica: ServeProcess, alignment: str) -> None:
        url = f"{replica.url}/v1/alignments/{alignment}/members/{name}"
        HTTP.put(url, json={"time": 5}).raise_for_status()

    def rows(replica: ServeProcess) -> dict[str, tuple[Any, Any]]:
        page = HTTP.get(f"{replica.url}/v1/alignments").raise_for_status().json()
        return {each["name"]: (each["bound"], each["held_by"]) for each in page["alignments"]}

    for alignment in (near, far):
        HTTP.put(f"{a.url}/v1/alignments/{alignment}", json={"max_drift": 10}).raise_for_status()
        report(b, alignment)
    both = {near: (15, name), far: (15, name)}
    wait_until(lambda: [rows(a), rows(b)] == [both, both])
    a.process.send_signal(signal.SIGKILL)
    report(b, near)

    assert rows(b) == both
