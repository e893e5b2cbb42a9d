"""The PostgreSQL session that a controller commits in, and that holds its leases.

Streams are hashed to buckets by name, and a bucket's lease is an advisory lock, which ends with the
session. Each controller ends sessions that were silent for `LEASE_MS` by the server's clock, so
every statement renews its leases.

A lost session loses all uncommitted changes. It is not replaced automatically, because another
controller may have written since.

It keeps invariant 4 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

from psycopg import Connection, Error

from controller.store.port import LEASE_MS, Leases, StoreUnavailable
from controller.store.schema import SCHEMA_REVISION
from noted_time import __version__
from noted_time.values import find_zone_release

RENEW_S = 1.0
END_MS = 500  # for a terminated session to end
PATIENCE_MS = 5000  # for a lock on rows or tables

# the default of the server, a database or a role may acknowledge before the write to disk
SYNC_SETTING = ("synchronous_commit", "on")
_SESSION_SETTINGS = (SYNC_SETTING, ("lock_timeout", str(PATIENCE_MS)))
SET_CONFIG = "SELECT set_config(%s, %s, false)"

SCHEMA_HASH = (
    "('x' || left(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 8))::bit(32)::int"
)

# An advisory lock is a pair of numbers: the schema's hash, and a bucket's number plus `first`, or
# `live`, which all live controllers share.
_LOCK_NUMBERS = {"first": int.from_bytes(b"note"), "live": int.from_bytes(b"note") - 1}

# An active session may wait for its client.
_END_SILENT_SESSIONS = f"""
SELECT pg_terminate_backend(pid, %(end_ms)s)
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN noted_time_replica USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = ({SCHEMA_HASH})::oid AND objid = %(live)s
AND (state <> 'active' OR wait_event_type = 'Client')
AND clock_timestamp() - state_change > %(lease_ms)s * interval '1 ms'
"""  # noqa: S608 - a constant

_SELECT_OWNERS = f"""
SELECT objid::bigint - %(first)s, pid = pg_backend_pid(), url
FROM pg_locks LEFT JOIN noted_time_replica USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = ({SCHEMA_HASH})::oid AND objid >= %(live)s
"""  # noqa: S608 - a constant

_ACQUIRE_BUCKETS = f"""
SELECT number FROM unnest(%(buckets)s::int[]) number
WHERE pg_try_advisory_lock({SCHEMA_HASH}, %(first)s + number)
"""  # noqa: S608 - a constant

_RELEASE_BUCKETS = f"""
SELECT pg_advisory_unlock({SCHEMA_HASH}, %(first)s + number)
FROM unnest(%(buckets)s::int[]) number
"""  # noqa: S608 - a constant

_REGISTER_REPLICA = """
INSERT INTO noted_time_replica (pid, url, version, revision, zone_data, connected_at)
VALUES (pg_backend_pid(), %s, %s, %s, %s, extract(epoch FROM clock_timestamp()) * 1000)
ON CONFLICT (pid) DO UPDATE SET url = excluded.url,
version = excluded.version, revision = excluded.revision, zone_data = excluded.zone_data,
connected_at = excluded.connected_at
"""
_LOCK_LIVE = f"SELECT pg_advisory_lock_shared({SCHEMA_HASH}, %(live)s)"
_DELETE_CLOSED_REPLICAS = """
DELETE FROM noted_time_replica WHERE pid NOT IN (SELECT pid FROM pg_stat_activity)
"""
_RELEASE_ALL = "SELECT pg_advisory_unlock_all()"


class LeaseSession:
    """The session of one controller, and its leases."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        """`connect` returns a session in autocommit mode."""
        self._connect = connect
        self._session: Connection[Any] | None = None
        self._url = ""
        self._last_statement_at = 0.0
        self._left = False

    def register(self, url: str) -> None:
        self._url = url

    def heartbeat(self, buckets: int) -> Leases:
        """Raises the driver's errors."""
        if self._session is None or self._session.closed:
            self._session = self._begin()
        self._last_statement_at = monotonic()
        self._session.execute(
            _END_SILENT_SESSIONS, {**_LOCK_NUMBERS, "lease_ms": LEASE_MS, "end_ms": END_MS}
        )
        mine, others, replicas = set(), {}, 0
        for bucket, own, url in self._session.execute(_SELECT_OWNERS, _LOCK_NUMBERS):
            if bucket < 0:
                replicas += 1
            elif own:
                mine.add(bucket)
            else:
                others[bucket] = url or ""
        return Leases(buckets, frozenset(mine), others, replicas)

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        session = self.session()
        return frozenset(
            number for (number,) in session.execute(_ACQUIRE_BUCKETS, _build_parameters(buckets))
        )

    def release(self, buckets: Iterable[int]) -> None:
        session = self.session()
        session.execute(_RELEASE_BUCKETS, _build_parameters(buckets))

    def leave(self) -> None:
        self._left = True
        if self._session is not None and not self._session.closed:
            self._session.execute(_RELEASE_ALL)

    def session(self) -> Connection[Any]:
        if self._session is None or self._session.closed:
            raise StoreUnavailable("the session with the database was lost; read again")
        self._last_statement_at = monotonic()
        return self._session

    def renew(self) -> None:
        if self._session is not None and monotonic() - self._last_statement_at > RENEW_S:
            self.session().execute("SELECT")

    def close(self) -> None:
        if self._session is None:
            return
        with suppress(Error):
            self.leave()
        self._session.close()

    def _begin(self) -> Connection[Any]:
        session = self._connect()
        for setting in _SESSION_SETTINGS:
            session.execute(SET_CONFIG, setting)
        session.execute(_DELETE_CLOSED_REPLICAS)
        facts = (self._url, __version__, SCHEMA_REVISION, find_zone_release())
        session.execute(_REGISTER_REPLICA, facts)
        if not self._left:
            session.execute(_LOCK_LIVE, _LOCK_NUMBERS)
        return session


def _build_parameters(buckets: Iterable[int]) -> dict[str, Any]:
    return {**_LOCK_NUMBERS, "buckets": sorted(buckets)}
