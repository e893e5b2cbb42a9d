"""The list of streams where others have some of them: whole, and read by a few queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from controller.service.following import FRESH_S
from controller.store.port import Batch
from noted_time import Note, ScaleEvent
from tests.replicas.conftest import append, make
from tests.replicas.pair import BUCKETS, fills, name_of, replica, shared, two

if TYPE_CHECKING:
    from controller.aggregation.stream import StreamState
    from controller.service.controller import Controller
    from controller.service.following import Following
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio

QUERIES = 4
"""So many does a list take: names, streams, marks, scale events."""


def shown(streams: list[StreamState]) -> list[tuple[Any, ...]]:
    """Return what a list shows of streams."""
    return [
        (
            stream.record,
            {key: history.last for key, history in stream.histories.items()},
            stream.scale_events,
        )
        for stream in streams
    ]


async def test_both_list_the_same_of_all_streams(url: str) -> None:
    """Settings, last marks and scale events; of those that are there, in the order asked for."""
    names = fills()
    async with two(url) as (a, b):
        for number, name in enumerate(names):
            owner = a if a.has(name) else b
            keys = ("default", "ship_time")[: 1 + number % 2]
            await owner.put_stream(name, {"mark_interval_ms": number % 2, "keys": keys})
            await owner.note(name, [Note("w", time, {0: 10 * time}) for time in (1, 2)])
            if number % 3 == 0:
                await owner.scale(name, ScaleEvent({0: 30}, {1: (0,)}))
        asked = [*reversed(names), "nothing"]
        found = [shown(await each.glances(asked)) for each in (a, b)]

    assert [record.name for record, *_ in found[0]] == [*reversed(names)]
    assert found[0] == found[1]


async def test_a_list_takes_a_few_queries_however_many_others_have(url: str) -> None:
    """Each is a turn with the server."""
    asked: list[str] = []
    async with replica(url) as a:
        for name in fills():
            await a.put_stream(name, {})
        async with replica(url, "http://b") as b:
            await shared(a, b)
            engine = a._store.reading._reading  # type: ignore[attr-defined]
            event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
            found = await a.glances(await a.names())

            assert (len(found), len(asked)) == (BUCKETS, QUERIES), asked


async def test_a_stream_of_ones_own_is_listed_as_it_is(url: str) -> None:
    """The very one to which notes come; one that was never made is in no list."""
    async with two(url) as (a, b):
        name = name_of(a)
        await a.put_stream(name, {})

        assert await a.glances([name, name_of(b)]) == [a.stream(name)]


async def made_alike(first: Controller, second: Controller, name: str) -> None:
    """Make the stream at the one that has it, and let the other show it."""
    await first.put_stream(name, {"mark_interval_ms": 0})
    await second.stream_to_read(name)


async def test_a_list_shows_what_was_changed_through_the_same_replica(url: str) -> None:
    """However fresh the stream was there: what a caller changed it is to read."""
    async with two(url) as (a, b):
        name = name_of(b)
        await made_alike(b, a, name)
        await b.note(name, [Note("w", 5, {0: 3})])
        a.doubt(name)
        (stream,) = await a.glances([name])

        last = stream.history(None).last
        assert last is not None
        assert last.lower == 5


async def test_of_many_streams_only_those_are_read_that_are_not_fresh(
    following: Following, written: Written, hours: Hours
) -> None:
    """All together, with the last mark of each."""
    make(written, "t", "id-2")
    append(written, 1, 2, stream_id="id-2")
    stream = await following.stream("s")
    before = written.readings
    found = [await following.glances(["s", "t", "u"])]
    read = written.readings - before
    hours.now += FRESH_S + 0.001
    written.commit(Batch(dropped=["id-2"]))
    found.append(await following.glances(["s", "t"]))

    assert (found[0]["s"] is stream, [sorted(each) for each in found], read) == (
        True,
        [["s", "t"], ["s"]],
        1,
    )
    assert found[0]["t"].history(None).last_seq == 2
