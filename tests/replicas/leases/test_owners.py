"""Owners of buckets, and replicas that leave."""

import threading
from contextlib import closing

import pytest

from controller.store.migrate import migrate
from controller.store.port import Leases
from controller.store.postgres import PostgresStore
from tests.replicas.leases.sessions import (
    ALL,
    Lease,
    MakeReplica,
    end_session,
    is_lost,
    outlast_lease,
)
from tools.trials.postgres import PASSWORD, Server
from tools.trials.waiting import wait_until


def test_heartbeat_shows_owners(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """It shows own and free buckets, the URLs of other owners, and the number of replicas."""
    a.release(range(10))
    acquired_buckets = b.acquire(range(5))

    of_a = frozenset(range(10, 64))
    of_b = frozenset(range(5))
    seen_by_a = a.heartbeat()
    seen_by_b = b.heartbeat()
    assert (acquired_buckets, seen_by_a.free) == (of_b, frozenset(range(5, 10)))
    assert seen_by_a == Leases(64, of_a, dict.fromkeys(of_b, "http://b"), 2)
    assert seen_by_b == Leases(64, of_b, dict.fromkeys(of_a, "http://a"), 2)
    server.execute("DELETE FROM noted_time_replica", url)
    assert a.heartbeat().others == dict.fromkeys(range(5), "")


def test_bucket_acquired_twice_is_released_once(a: PostgresStore, b: PostgresStore) -> None:
    """Otherwise, one unlock would not release it."""
    a.acquire(a.heartbeat().free)
    a.release([7])

    assert b.acquire([7]) == frozenset([7])


def test_bucket_has_one_owner_at_time(make: MakeReplica) -> None:
    """Four replicas acquire and release as fast as they can."""
    owners: dict[int, str] = {}
    broken: list[tuple[int, str, str]] = []
    counts_taken = dict.fromkeys(("http://1", "http://2", "http://3", "http://4"), 0)

    def work(name: str, store: PostgresStore) -> None:
        for turn in range(60):
            got = store.acquire(range(turn % 3, 64, 3))
            counts_taken[name] += len(got)
            broken.extend((bucket, name, owners[bucket]) for bucket in got if bucket in owners)
            owners.update(dict.fromkeys(got, name))
            for bucket in got:
                del owners[bucket]
            store.release(got)

    threads = [threading.Thread(target=work, args=(name, make(name))) for name in counts_taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert (broken, all(counts_taken.values())) == ([], True)


@pytest.mark.parametrize("kind", ["schema", "database"])
def test_schemas_and_databases_are_separate(url: str, server: Server, kind: str) -> None:
    """A replica of another schema or database does not acquire or hide a bucket."""
    elsewhere = f"{url}?options=-csearch_path%3Dapart"
    if kind == "schema":
        server.execute("CREATE SCHEMA IF NOT EXISTS apart", url)
    else:
        elsewhere = server.make_database()
    migrate(elsewhere)
    with closing(PostgresStore(url)) as one_store, closing(PostgresStore(elsewhere)) as other:
        acquired_buckets = [store.acquire(store.heartbeat().free) for store in (one_store, other)]

        assert (acquired_buckets, one_store.heartbeat().replicas, other.heartbeat().others) == (
            [ALL, ALL],
            1,
            {},
        )


def test_ordinary_user_can_end_silent_session(
    server: Server, lease: Lease, request: pytest.FixtureRequest
) -> None:
    """It must own the database, but need not be a superuser."""
    url = server.make_database()
    database = url.rpartition("/")[2]
    server.execute(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
    request.addfinalizer(lambda: server.execute("ALTER ROLE plain NOLOGIN"))
    server.execute(f"ALTER DATABASE {database} OWNER TO plain")
    plain = url.replace("//noted:", "//plain:")
    migrate(plain)
    with closing(PostgresStore(plain)) as one_store, closing(PostgresStore(plain)) as other:
        one_store.register("http://a")
        one_store.acquire(one_store.heartbeat().free)
        before = set(other.heartbeat().others.values())
        outlast_lease(lease)

        assert (before, other.heartbeat().free) == ({"http://a"}, ALL)


# Replicas that leave or close


def test_leaving_replica_releases_all_buckets(a: PostgresStore, b: PostgresStore) -> None:
    """It no longer counts as a replica, but still reads the owners."""
    a.leave()
    free = b.heartbeat()
    b.acquire(ALL)

    leases = a.heartbeat()
    assert (free.free, free.replicas) == (ALL, 1)
    assert (leases.mine, set(leases.others.values()), leases.replicas) == (
        frozenset(),
        {"http://b"},
        1,
    )


def test_replica_that_left_does_not_return(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """It still reads the owners with a new session."""
    a.leave()
    end_session("http://a", server, url)
    is_lost(a.heartbeat)

    assert (a.heartbeat().replicas, b.heartbeat().replicas) == (1, 1)


def test_replica_without_session_has_left(
    a: PostgresStore, b: PostgresStore, server: Server
) -> None:
    server.cut(b._url)
    is_lost(a.ping)
    a.leave()

    wait_until(lambda: a.heartbeat().replicas == 0)  # the server ends sessions in its own time


def test_closed_store_frees_its_buckets_at_once(a: PostgresStore, b: PostgresStore) -> None:
    """Other replicas do not wait for the end of its lease. It starts no other session."""
    a.close()
    is_refused = is_lost(a.heartbeat)
    after = b.heartbeat()

    assert (is_refused, after.free, after.replicas) == (True, ALL, 1)
