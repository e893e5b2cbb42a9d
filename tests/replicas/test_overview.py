"""The overview if other replicas own some of the streams."""

import signal
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from controller.store.records import ChangeSet, StreamRecord
from noted_time.values import Note, StreamSettings
from tests.replicas.one_replica import HERE, OTHER, THERE, Replica, name_stream, run_replica
from tests.support.gates import Guarded
from tests.support.processes import ServeProcess
from tests.support.stored import mark
from tools.trials.calls import HTTP
from tools.trials.waiting import wait_until


def store_other_stream(replica: Replica) -> None:
    """Store the stream of the other replica, with a mark."""
    record = StreamRecord("id-1", THERE, StreamSettings(mark_interval_ms=0))
    replica.store.commit(ChangeSet(record, mark(1)))


async def get_overview(replica: Replica, **query: Any) -> dict[str, Any]:  # noqa: ANN401 - any parameter
    """Return the overview that the replica gives."""
    answer = await replica.client.get("/v1/overview", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def list_rows(overview: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the names shown and whether their owner answered."""
    return [(row["name"], row["answered"]) for row in overview["streams"]]


async def test_streams_of_other_replicas_are_read_from_database(this: Replica) -> None:
    """They have their last marks, and null for facts that only the owner knows."""
    store_other_stream(this)
    overview = await get_overview(this)

    _, other = overview["streams"]
    (domain,) = other["domains"]
    unknown = (
        "decision",
        "condition",
        "holding_back_count",
        "held_back_by",
        "held_back_ms",
        "times_out_in_ms",
    )
    assert list_rows(overview) == [(HERE, True), (THERE, False)]
    counts = ("total", "unanswered", "conditions")
    assert [overview[name] for name in counts] == [2, 1, {"quiet": 1}]
    assert (domain["lower"], other["writers"]) == (1, None)
    assert {domain[name] for name in unknown} == {None}
    assert (this.owner.asked, this.owner.frames) == ([], [])


async def test_overview_is_ordered_by_name(this: Replica) -> None:
    """Each stream is on one page, also a stream that holds."""
    store_other_stream(this)
    last, *more = sorted([name_stream(2), name_stream(4), name_stream(6)], reverse=True)
    for name in (last, *more):
        await this.controller.put_stream(name, {})
    await this.controller.note(last, [Note("gone")])
    pages = [await get_overview(this, start=start, limit=2) for start in (0, 2, 4)]

    names = []
    for page in pages:
        names += [name for name, _ in list_rows(page)]
    assert names == sorted([HERE, THERE, last, *more])
    assert [page["next"] for page in pages] == [2, 4, None]


async def test_owner_gives_row_of_its_stream(this: Replica) -> None:
    """The row of an own stream equals its row of the overview."""
    await this.controller.note(HERE, [Note("w")])
    this.owner.reply = Mock(return_value=httpx.Response(200, json={"name": THERE}))
    row_there = (await this.client.get(f"/v1/streams/{THERE}/overview")).json()
    row_here = (await this.client.get(f"/v1/streams/{HERE}/overview")).json()
    overview = await get_overview(this)

    (request,) = this.owner.asked
    assert str(request.url) == f"{OTHER}/v1/streams/{THERE}/overview"
    assert row_there == {"name": THERE}
    assert row_here["domains"][0]["held_back_by"] == "w"
    assert row_here.keys() == overview["streams"][0].keys()


async def test_token_shows_only_its_streams() -> None:
    """This holds for own streams and for streams of other replicas."""
    guarded_gate = Guarded()
    token = guarded_gate.token("read", streams=[HERE])
    async with run_replica(guarded_gate.gate) as replica:
        store_other_stream(replica)
        row_lists = []
        statuses = []
        for shown_token in (token, guarded_gate.token("admin")):
            headers = {"authorization": f"Bearer {shown_token}"}
            answer = await replica.client.get("/v1/overview", headers=headers)
            row_lists.append(list_rows(answer.json()))
            row = await replica.client.get(f"/v1/streams/{THERE}/overview", headers=headers)
            statuses.append(row.status_code)

    assert row_lists == [[(HERE, True)], [(HERE, True), (THERE, False)]]
    assert statuses == [403, 200]


def get_row(replica: ServeProcess, stream: str) -> dict[str, Any] | None:
    """Return a stream's row, or `None` if its owner does not answer."""
    answer = HTTP.get(f"{replica.url}/v1/streams/{stream}/overview")
    return dict(answer.json()) if answer.is_success else None


@pytest.mark.acceptance
@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
def test_overview_works_without_replica(
    a: ServeProcess, b: ServeProcess, name: str, sent: signal.Signals
) -> None:
    """The database answers until another replica owns its streams."""
    a.process.send_signal(sent)
    overview = HTTP.get(f"{b.url}/v1/overview").raise_for_status().json()
    row = {row["name"]: row for row in overview["streams"]}[name]
    wait_until(lambda: get_row(b, name) is not None)
    taken_over = get_row(b, name) or {}
    a.process.send_signal(signal.SIGKILL)

    lower = row["domains"][0]["lower"]
    assert (row["answered"], row["writers"], lower) == (False, None, 5)
    assert taken_over["domains"][0]["held_back_by"] == "w"
