"""Stores of replicas that share leases, and the ends of their sessions."""

import time
from collections.abc import Callable, Iterator

import pytest

from controller.store.port import StoreUnavailable
from controller.store.postgres import PostgresStore
from tools.trials.postgres import Server
from tools.trials.waiting import wait_until

MakeReplica = Callable[[str], PostgresStore]
Lease = Callable[[int], None]

ALL = frozenset(range(64))

SHORT_MS = 300
"""A lease short enough for a test to wait for."""

FAIR_MS = 800
"""A lease that no active replica loses, on any machine."""

LONG_MS = 60_000


def outlast_lease(lease: Lease) -> None:
    """Wait for longer than a short lease."""
    time.sleep(1.2 * SHORT_MS / 1000)
    lease(SHORT_MS)


def repeat_over_lease() -> Iterator[None]:
    """Continue for longer than a fair lease."""
    deadline = time.monotonic() + 1.5 * FAIR_MS / 1000
    while time.monotonic() < deadline:
        yield


def wait_for_query(server: Server, url: str, wait_event: str) -> None:
    """Wait until a session of the database is active and waits for this event."""
    database = url.rpartition("/")[2]
    query = f"""SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active'
    AND wait_event = '{wait_event}'"""  # noqa: S608 - our own names
    wait_until(lambda: server.execute(query))


def is_lost(act: Callable[..., object], *arguments: object) -> bool:
    """Return whether the store reports that its session was lost."""
    with pytest.raises(StoreUnavailable):
        act(*arguments)
    return True


def make_older(replica_url: str, server: Server, url: str) -> None:
    """Let the replica with this URL be an older controller, which knows no renewals."""
    older = (
        f"UPDATE noted_time_replica SET renewed_at = NULL WHERE url = '{replica_url}' RETURNING pid"  # noqa: S608 - our own name
    )
    assert server.execute(older, url)


def end_session(replica_url: str, server: Server, url: str) -> None:
    """End the session of the replica with this URL."""
    pid = f"SELECT pid FROM noted_time_replica WHERE url = '{replica_url}'"  # noqa: S608 - our own name
    server.execute(f"SELECT pg_terminate_backend(({pid}))", url)
