from collections.abc import Iterator

import pytest

from controller.store import leases
from controller.store.postgres import PostgresStore
from tests.replicas.leases.sessions import ALL, LONG_MS, Lease, MakeReplica


@pytest.fixture
def make(url: str) -> Iterator[MakeReplica]:
    """Makes the store of a replica with this URL, after its first heartbeat."""
    made: list[PostgresStore] = []

    def begin(called: str) -> PostgresStore:
        store = PostgresStore(url)
        made.append(store)
        store.register(called)
        store.heartbeat()
        return store

    yield begin
    for store in made:
        store.close()


@pytest.fixture
def a(make: MakeReplica) -> PostgresStore:
    """A replica that has all buckets."""
    store = make("http://a")
    store.acquire(ALL)
    return store


@pytest.fixture
def b(make: MakeReplica, a: PostgresStore) -> PostgresStore:
    """A replica without buckets."""
    assert a.heartbeat().mine == ALL
    return make("http://b")


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    """Sets the length of a lease in ms; without a call, leases do not end."""

    def last(ms: int) -> None:
        monkeypatch.setattr(leases, "LEASE_MS", ms)

    last(LONG_MS)
    return last
