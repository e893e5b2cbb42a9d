"""The list of streams if others own some of them: complete, and read by a few queries."""

from sqlalchemy import event

from controller.aggregation import operations
from controller.aggregation.operations import ANONYMOUS
from noted_time import Note, ScaleEvent
from tests.replicas.pair import BUCKETS, fills, replica, shared, two

QUERIES = 4
"""The number of queries for a list: names, streams, marks, scale events."""


async def test_both_list_the_same_of_all_streams(url: str) -> None:
    """Settings, last marks, scale events of those that are there, in the order of their names."""
    names = fills()
    async with two(url) as (a, b):
        for number, name in enumerate(names):
            owner = a if a.owns(name) else b
            domains = ("default", "ship_time")[: 1 + number % 2]
            await owner.put_stream(name, {"mark_interval_ms": number % 2, "domains": domains})
            await owner.note(name, [Note("w", time, {0: 10 * time}) for time in (1, 2)])
            if number % 3 == 0:
                await owner.change(
                    name, operations.scale, ANONYMOUS, ScaleEvent({0: 30}, {1: (0,)})
                )
        asked = [*reversed(names), "nothing"]
        found = [await each.summaries(asked) for each in (a, b)]

    assert [each.record.name for each in found[0]] == sorted(names)
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
            found = await a.summaries(await a.names())

            assert (len(found), len(asked)) == (BUCKETS, QUERIES), asked
