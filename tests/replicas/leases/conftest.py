from collections.abc import Iterator

import pytest

from controller.store import leases
from controller.store.postgres import PostgresStore
from tests.replicas.leases.sessions import ALL, LONG_MS, Lease, MakeReplica


@pytest.fixture
def make(url: str) -> Iterator[MakeReplica]:
    """Makes the store of a replica with this URL, after its first heartbeat."""
    stores: list[PostgresStore] = []

    def begin(replica_url: str) -> PostgresStore:
        store = PostgresStore(url)
        stores.append(store)
        store.register(replica_url)
        store.heartbeat()
        return store

    yield begin
    for store in stores:
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
