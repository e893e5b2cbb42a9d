from collections.abc import Iterator

import pytest

from controller.store import leases
from controller.store.postgres import PostgresStore
from tests.replicas.leases.sessions import ALL, LONG_MS, Lease, MakeReplica


@pytest.fixture
def make(url: str) -> Iterator[MakeReplica]:
    """Makes the store of a replica at each call, called as that says, which has looked once."""
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
    """Another one, which has none."""
    assert a.heartbeat().mine == ALL
    return make("http://b")


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    """Gives the length of a lease in ms; so long that none ends until a test changes it."""

    def last(ms: int) -> None:
        monkeypatch.setattr(leases, "LEASE_MS", ms)

    last(LONG_MS)
    return last
