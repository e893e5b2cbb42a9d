"""The overview if others own some of the streams: merged from their owners."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from controller.api.fleet import gathering
from controller.api.fleet.gathering import Gathering, OverviewQuery
from controller.store.port import StreamRecord, Transaction
from noted_time import Note
from tests.replicas.played import HERE, OTHER, THERE, TROUBLES, Played, played, settings, stream_of
from tests.replicas.served import make, note
from tests.replicas.served import stream_of as stream_at
from tests.support.calls import HTTP
from tests.support.gates import Guarded
from tests.support.processes import ServeProcess
from tests.support.stored import mark
from tests.support.waiting import eventually, wait_until

MARKED = {"noted-time-forwarded": "1"}
ODD = [*range(1, 64, 2)]


def row(name: str, *, held_for_ms: int | None = None, excluded: int = 0) -> dict[str, Any]:
    """Return the row of a stream as the other replica answers it."""
    domain = {"domain": "default", "lower": 5, "upper": 5, "written_at": 7, "decision": "hold"}
    domain |= {"holders": 1, "held_by": "w", "held_for_ms": held_for_ms}
    domain |= {"times_out_in_ms": 9, "lag": [None] * 30}
    writers = {"live": 1, "idle": 0, "finished": 0, "excluded": excluded}
    row = {"name": name, "id": name, "answered": True, "writers": writers, "domains": [domain]}
    return row | {"silence": None}


def part(*rows: dict[str, Any]) -> Callable[[httpx.Request], httpx.Response]:
    """Return an answer of the other replica, which has these streams."""
    counts = {"conditions": {"held": len(rows)} if rows else {}}
    body = {"buckets": ODD, "total": len(rows), "streams": rows, **counts}
    return lambda _: httpx.Response(200, json=body)


def kept_there(this: Played) -> None:
    """Have the database know the stream of the other replica, with a mark."""
    record = StreamRecord("id-1", THERE, settings())
    this.store.commit(Transaction({}, streams=[record], marks=[mark(1)]))


async def seen(this: Played, **query: Any) -> dict[str, Any]:  # noqa: ANN401 - any parameter
    """Return the overview that the replica gives."""
    answer = await this.client.get("/v1/overview", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def rows_of(overview: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the names shown and whether their owner answered."""
    return [(each["name"], each["answered"]) for each in overview["streams"]]


async def test_rows_of_others_are_merged_with_ones_own(this: Played) -> None:
    """By trouble; the other's rows are shown as they are, and both count."""
    held, fine = row(THERE, held_for_ms=25_000), row(stream_of(3))
    this.owner.reply = part(held, fine)
    await this.controller.note(HERE, [Note("w")])
    overview = await seen(this)

    names = sorted([HERE, stream_of(3)])
    assert rows_of(overview) == [(THERE, True), *((name, True) for name in names)]
    assert (overview["total"], overview["unanswered"], overview["next"]) == (3, 0, None)
    assert overview["streams"][0] == held
    assert overview["conditions"] == {"held": 2, "unmarked": 1}


async def test_each_other_is_asked_once_as_the_caller_asked(this: Played) -> None:
    """With its token, and marked, so that the receiver asks no other in turn."""
    this.owner.reply = part()
    shown = {"authorization": "Bearer x"}
    query: dict[str, str | int] = {"search": "s", "sort": "name", "start": 3, "limit": 7}
    await this.client.get("/v1/overview", params=query, headers=shown)
    (asked,) = this.owner.asked

    assert (str(asked.url.copy_with(query=None)), dict(asked.url.params)) == (
        f"{OTHER}/v1/overview",
        {name: str(value) for name, value in query.items()},
    )
    assert {name: asked.headers[name] for name in (*shown, *MARKED)} == shown | MARKED


async def test_a_marked_request_is_answered_with_ones_own_alone(this: Played) -> None:
    """Up to the end of the page, and with the buckets that they may be in."""
    kept_there(this)
    names = [HERE, *(stream_of(bucket) for bucket in (2, 4, 6))]
    for name in names[1:]:
        await this.controller.put_stream(name, {})
    query = {"start": "2", "limit": "1", "sort": "name"}
    answer = await this.client.get("/v1/overview", params=query, headers=MARKED)

    found = answer.json()
    assert (sorted(found["buckets"]), found["total"], this.owner.asked) == (
        [*range(0, 64, 2)],
        4,
        [],
    )
    assert [each["name"] for each in found["streams"]] == sorted(names)[:3]


ANSWERS: dict[str, httpx.Response | Exception] = {
    "unavailable": httpx.Response(503),
    "unauthenticated": httpx.Response(401),
    "nonsense": httpx.Response(200, content=b"nonsense"),
    "no rows": httpx.Response(200, json={"buckets": ODD, "total": 1, "streams": [{"name": 5}]}),
    **{type(each).__name__: each for each in TROUBLES},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_streams_of_one_that_does_not_answer_come_from_the_database(
    this: Played, answer: httpx.Response | Exception
) -> None:
    """First of all, with their last marks; what only the owner knows is not made up."""
    kept_there(this)
    if isinstance(answer, Exception):
        this.owner.trouble = [answer]
    else:
        this.owner.reply = lambda _: answer
    overview = await seen(this)

    lost = overview["streams"][0]
    (domain,) = lost["domains"]
    unknown = ("decision", "holders", "held_by", "held_for_ms", "times_out_in_ms")
    assert rows_of(overview) == [(THERE, False), (HERE, True)]
    assert (overview["total"], overview["unanswered"], lost["writers"]) == (2, 1, None)
    assert (domain["lower"], {domain[name] for name in unknown}) == (1, {None})


async def test_a_page_is_cut_from_all_streams_together(this: Played) -> None:
    """Unanswered ones, others' and its own: each comes once over all pages."""
    mine = [HERE, *(stream_of(bucket) for bucket in (2, 4, 6))]
    for name in mine[1:]:
        await this.controller.put_stream(name, {})
    theirs = [stream_of(bucket) for bucket in (1, 3, 5)]
    this.owner.reply = part(*map(row, theirs))
    pages = [await seen(this, start=start, limit=3, sort="name") for start in (0, 3, 6)]

    names = [name for page in pages for name, _ in rows_of(page)]
    assert names == sorted(mine + theirs)
    assert [page["next"] for page in pages] == [3, 6, None]


async def test_one_that_hangs_is_not_waited_for(
    this: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its streams are shown as the database has them."""
    kept_there(this)
    monkeypatch.setattr(gathering, "OVERVIEW_S", 0.05)

    async def hang(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with httpx.AsyncClient(transport=httpx.MockTransport(hang)) as client:
        asked = Gathering(this.controller, client)
        question = OverviewQuery("", "trouble", 0, 9)
        async with asyncio.timeout(10):
            found = await asked.overview(question, lambda _: True, None)

    shown = [(each.name, each.answered) for each in found.streams]
    assert (shown, found.unanswered) == ([(THERE, False), (HERE, True)], 1)


async def test_a_token_sees_what_it_may_read() -> None:
    """Neither more of its own nor of those without an answer."""
    guarded = Guarded()
    token = guarded.token("read", streams=[HERE])
    async with played(guarded.gate) as this:
        kept_there(this)
        this.owner.trouble = [httpx.ConnectError("nobody listens")] * 2
        shown = []
        for each in (token, guarded.token("admin")):
            headers = {"authorization": f"Bearer {each}"}
            answer = await this.client.get("/v1/overview", headers=headers)
            shown.append(rows_of(answer.json()))

    assert shown == [[(HERE, True)], [(THERE, False), (HERE, True)]]


def overview_of(replica: ServeProcess) -> dict[str, dict[str, Any]]:
    """Return the rows of a served replica's overview, by name."""
    found = HTTP.get(f"{replica.url}/v1/overview").raise_for_status().json()
    return {each["name"]: each for each in found["streams"]}


def holders_at(replica: ServeProcess) -> dict[str, str | None]:
    """Return who holds each stream, as a served replica shows it."""
    return {n: row["domains"][0]["held_by"] for n, row in overview_of(replica).items()}


@pytest.mark.acceptance
def test_whichever_replica_is_asked_shows_all_streams(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """With the holder of each, as its owner answers."""
    other = stream_at(b, "other")
    make(b, other)
    note(b, other, None, "slow")
    for each in a, b:  # an owner that is busy for 0.8 s is not waited for
        assert eventually(partial(holders_at, each), {name: "w", other: "slow"})


@pytest.mark.acceptance
@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
def test_an_overview_works_without_a_replica(
    a: ServeProcess, b: ServeProcess, name: str, sent: signal.Signals
) -> None:
    """Whether it hangs or is dead; the database answers until there is another owner."""
    a.process.send_signal(sent)
    shown = overview_of(b)[name]
    wait_until(lambda: overview_of(b)[name]["answered"])
    taken_over = overview_of(b)[name]
    a.process.send_signal(signal.SIGKILL)

    lower = shown["domains"][0]["lower"]
    assert (shown["answered"], shown["writers"], lower) == (False, None, 5)
    assert taken_over["domains"][0]["held_by"] == "w"
