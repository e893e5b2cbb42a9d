import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller.store import leases
from controller.store.postgres import PostgresStore
from tests.replicas.leased import ALL, LONG_MS, OWNER, Lease, MakeReplica


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


@pytest.fixture
def other_process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A replica in a process of its own that has all buckets and has appended mark 1."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "mark 1\n"
        yield process
        process.kill()


@pytest.fixture
def b_alone(make: MakeReplica, other_process: subprocess.Popen[str]) -> PostgresStore:
    """A replica that has nothing, beside one in another process.

    It begins last: the other has a short lease, and would end a session that waits for its start.
    """
    assert other_process.poll() is None
    return make("http://b")
