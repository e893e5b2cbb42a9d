"""What others are told of leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.store.notices import notice_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from controller.store.postgres import PostgresStore
    from tests.replicas.leased import MakeReplica
    from tests.support.postgres import Server


def test_others_are_told_of_every_change(make: MakeReplica, url: str, server: Server) -> None:
    """When a replica comes, acquires, releases and leaves; a heartbeat alone tells nobody."""
    with server.session(url) as listening:
        _listen(listening)
        store = make("http://a")
        told = [_heard(listening)]
        acts: list[Callable[[], Any]] = [
            store.heartbeat,
            lambda: store.acquire([1, 2]),
            lambda: store.acquire([1, 2]),
            lambda: store.release([1]),
            store.close,
        ]
        for act in acts:
            act()
            told.append(_heard(listening))

    assert told == [1, 0, 1, 1, 1, 1]


def test_what_is_told_is_that_leases_changed(
    a: PostgresStore, b: PostgresStore, url: str, server: Server
) -> None:
    """In the words that a listener understands."""
    with server.session(url) as listening:
        _listen(listening)
        a.release([1])
        b.acquire([1])
        heard = [notice_of(each.payload) for each in listening.notifies(timeout=5, stop_after=2)]

    assert [type(each).__name__ for each in heard] == ["LeasesChanged"] * 2


def _listen(session: psycopg.Connection[Any]) -> None:
    found = session.execute("SELECT 'noted_time_' || hashtext(current_schema())").fetchone()
    assert found
    session.execute(f'LISTEN "{found[0]}"'.encode())


def _heard(session: psycopg.Connection[Any]) -> int:
    """Return how many notices came by now."""
    session.execute("SELECT")
    return len(list(session.notifies(timeout=0.1)))
