"""Stores of replicas that share leases, and how their sessions come to an end."""

import time
from collections.abc import Callable, Iterator

import pytest

from controller.store.port import StoreUnavailable
from controller.store.postgres import PostgresStore
from tests.support.postgres import Server
from tests.support.waiting import wait_until

MakeReplica = Callable[[str], PostgresStore]
Lease = Callable[[int], None]

ALL = frozenset(range(64))

SHORT_MS = 300
"""A lease that a test can wait for."""

FAIR_MS = 800
"""A lease that no active replica loses, on any machine."""

LONG_MS = 60_000

# Takes all buckets and appends mark 1; then appends the next one for each line that it reads.
OWNER = """
import sys
from controller.store.port import Transaction
from controller.store.postgres import PostgresStore
from tests.support.stored import mark, of_one_stream

store = PostgresStore(sys.argv[1])
store.acquire(store.heartbeat().free)
store.commit(of_one_stream(upto=1))
print("mark 1", flush=True)
for n, _ in enumerate(sys.stdin, 2):
    try:
        store.commit(Transaction({0: n}, marks=[mark(n)]))
        print("mark", n, flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def silent(lease: Lease) -> None:
    """Keep all replicas silent for longer than a lease."""
    time.sleep(1.2 * SHORT_MS / 1000)
    lease(SHORT_MS)


def while_leases_end() -> Iterator[None]:
    """Continue for longer than a fair lease."""
    deadline = time.monotonic() + 1.5 * FAIR_MS / 1000
    while time.monotonic() < deadline:
        yield


def at_work(server: Server, url: str, wait_event: str) -> None:
    """Wait until the server works for a session and waits for that."""
    database = url.rpartition("/")[2]
    query = f"""SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active'
    AND wait_event = '{wait_event}'"""  # noqa: S608 - our own names
    wait_until(lambda: server.execute(query))


def became_free(store: PostgresStore) -> None:
    """Look until all buckets are free."""
    wait_until(lambda: store.heartbeat().free == ALL)


def lost(act: Callable[[], object]) -> bool:
    """Whether the store reports that its session was lost."""
    with pytest.raises(StoreUnavailable):
        act()
    return True


def end_session_of(called: str, server: Server, url: str) -> None:
    """End the session of the replica that is called so."""
    server.execute(f"SELECT pg_terminate_backend(pid) FROM replica WHERE url = '{called}'", url)  # noqa: S608 - our own name
