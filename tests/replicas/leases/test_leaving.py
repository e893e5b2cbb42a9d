"""What becomes of the buckets of a replica that leaves, or closes."""

from controller.store.postgres import PostgresStore
from tests.replicas.leased import ALL, end_session_of, lost
from tests.support.postgres import Server


def test_a_leaving_replica_gives_up_everything_and_keeps_looking(
    a: PostgresStore, b: PostgresStore
) -> None:
    """It no longer counts, so the others take more; and it sees where the buckets are."""
    a.leave()
    free = b.heartbeat()
    b.acquire(ALL)

    seen = a.heartbeat()
    assert (free.free, free.replicas) == (ALL, 1)
    assert (seen.mine, set(seen.others.values()), seen.replicas) == (frozenset(), {"http://b"}, 1)


def test_who_left_does_not_come_back_with_another_session(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """It keeps looking, whatever becomes of its session."""
    a.leave()
    end_session_of("http://a", server, url)
    lost(a.heartbeat)

    assert (a.heartbeat().replicas, b.heartbeat().replicas) == (1, 1)


def test_who_lost_its_session_has_left(a: PostgresStore, b: PostgresStore, server: Server) -> None:
    """Nothing has to be given back."""
    server.cut(b._url)
    lost(a.ping)
    a.leave()

    assert a.heartbeat().replicas == 0


def test_an_owner_that_closes_hands_over_at_once(a: PostgresStore, b: PostgresStore) -> None:
    """No replica waits for the end of a lease that was given back."""
    a.close()

    after = b.heartbeat()
    assert (after.free, after.replicas) == (ALL, 1)


def test_a_closed_store_begins_no_session_again(a: PostgresStore, b: PostgresStore) -> None:
    """Its heartbeat is refused, and does not make it live again."""
    a.close()

    assert lost(a.heartbeat)
    assert b.heartbeat().replicas == 1
