"""The PostgreSQL session that a controller commits in, and that holds its leases.

Streams are hashed to buckets by name, and a bucket's lease is an advisory lock, which ends with the
session. A second session renews the leases: it writes `renewed_at` while the first one has its
locks. Each controller ends sessions that were not renewed for `LEASE_MS` by the server's clock. An
older controller renews by every statement, and has no `renewed_at`.

A lost session loses all uncommitted changes. It is not replaced automatically, because another
controller may have written since.

The session has a random token. Each statement that needs a lease checks token and process id, and
fails in a session of another client, which a pooler may have given to this one.

It keeps invariant 4 of docs/explain/theory.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from psycopg import Connection, Error

from controller.store.port import LEASE_MS, Leases, StoreShared, StoreUnavailable
from controller.store.reading import SHARED_SESSION
from controller.store.schema import SCHEMA_REVISION
from noted_time import __version__
from noted_time.values import find_zone_release

TOUCH_S = 1.0
END_MS = 500  # for a terminated session to end
PATIENCE_MS = 5000  # for a lock on rows or tables

# the default of the server, a database or a role may acknowledge before the write to disk
SYNC_SETTING = ("synchronous_commit", "on")
_SESSION_SETTINGS = (SYNC_SETTING, ("lock_timeout", str(PATIENCE_MS)))
_RENEWAL_SETTINGS = (
    ("synchronous_commit", "off"),  # a renewal that a crash loses is as good as none
    ("statement_timeout", "2000"),
)
SET_CONFIG = "SELECT set_config(%s, %s, false)"

_TOKEN_SETTING = "noted_time.session"  # noqa: S105 - a name
_SELECT_TOKEN = f"SELECT nullif(current_setting('{_TOKEN_SETTING}', true), '')"
_OWN_TOKEN = f"current_setting('{_TOKEN_SETTING}', true) = %(token)s"

# True, or an error of the server, which also undoes the transaction. `CASE` is not evaluated
# before its statement runs, as it calls functions that are not immutable.
IS_OWN_SESSION = f"""
(CASE WHEN pg_backend_pid() = %(pid)s AND {_OWN_TOKEN}
 THEN 'true' ELSE '{SHARED_SESSION}' END)::boolean
"""
CHECK_SESSION = f"SELECT WHERE {IS_OWN_SESSION}"

SCHEMA_HASH = (
    "('x' || left(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 8))::bit(32)::int"
)

# An advisory lock is a pair of numbers: the schema's hash, and a bucket's number plus `first`, or
# `live`, which all live controllers share.
_LOCK_NUMBERS = {"first": int.from_bytes(b"note"), "live": int.from_bytes(b"note") - 1}

_HELD_LOCKS = f"""
locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = ({SCHEMA_HASH})::oid
"""  # noqa: S608 - a constant

# An active session of an older controller may wait for its client. The row of a former session
# with the same process id has an earlier `renewed_at`.
_END_SILENT_SESSIONS = f"""
SELECT pg_terminate_backend(pid, %(end_ms)s)
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN noted_time_replica USING (pid)
WHERE {_HELD_LOCKS} AND objid = %(live)s AND pid <> pg_backend_pid()
AND CASE WHEN renewed_at >= connected_at
THEN extract(epoch FROM clock_timestamp()) * 1000 - renewed_at > %(lease_ms)s
ELSE (state <> 'active' OR wait_event_type = 'Client')
    AND clock_timestamp() - state_change > %(lease_ms)s * interval '1 ms' END
"""  # noqa: S608 - a constant

_SELECT_OWNERS = f"""
SELECT objid::bigint - %(first)s, pid = pg_backend_pid(), url
FROM pg_locks LEFT JOIN noted_time_replica USING (pid)
WHERE {_HELD_LOCKS} AND objid >= %(live)s
"""  # noqa: S608 - a constant

_ACQUIRE_BUCKETS = f"""
SELECT number FROM unnest(%(buckets)s::int[]) number
WHERE {IS_OWN_SESSION} AND pg_try_advisory_lock({SCHEMA_HASH}, %(first)s + number)
"""  # noqa: S608 - a constant

_RELEASE_BUCKETS = f"""
SELECT pg_advisory_unlock({SCHEMA_HASH}, %(first)s + number)
FROM unnest(%(buckets)s::int[]) number WHERE {IS_OWN_SESSION}
"""  # noqa: S608 - a constant

_STATEMENT_MS = "extract(epoch FROM statement_timestamp()) * 1000"
_REGISTER_REPLICA = f"""
INSERT INTO noted_time_replica
(pid, url, version, revision, zone_data, connected_at, renewed_at)
VALUES (pg_backend_pid(), %s, %s, %s, %s, {_STATEMENT_MS}, {_STATEMENT_MS})
ON CONFLICT (pid) DO UPDATE SET url = excluded.url,
version = excluded.version, revision = excluded.revision, zone_data = excluded.zone_data,
connected_at = excluded.connected_at, renewed_at = excluded.renewed_at
RETURNING pid, connected_at
"""  # noqa: S608 - a constant
_RENEW_LEASES = f"""
UPDATE noted_time_replica SET renewed_at = {_STATEMENT_MS}
WHERE pid = %(pid)s AND connected_at = %(connected_at)s AND EXISTS (
    SELECT FROM pg_locks held WHERE {_HELD_LOCKS} AND objid = %(live)s AND held.pid = %(pid)s
)
RETURNING pg_backend_pid() = %(pid)s OR {_OWN_TOKEN}
"""  # noqa: S608 - a constant
_LOCK_LIVE = f"SELECT pg_advisory_lock_shared({SCHEMA_HASH}, %(live)s)"
_DELETE_CLOSED_REPLICAS = """
DELETE FROM noted_time_replica WHERE pid NOT IN (SELECT pid FROM pg_stat_activity)
"""
_RELEASE_ALL = f"SELECT pg_advisory_unlock_all() WHERE {IS_OWN_SESSION}"

_SESSION_LOST = "the session with the database was lost; read again"


class _Holder(NamedTuple):
    """The session that holds the leases, and its values in the database."""

    session: Connection[Any]
    pid: int
    token: str
    connected_at: int

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **_LOCK_NUMBERS,
            "pid": self.pid,
            "token": self.token,
            "connected_at": self.connected_at,
        }


class LeaseSession:
    """The session of one controller, and its leases."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        """`connect` returns a session in autocommit mode."""
        self._connect = connect
        self._holder: _Holder | None = None
        self._lost: _Holder | None = None
        self._renewing: Connection[Any] | None = None
        self._renewing_lock = Lock()
        self._url = ""
        self._last_statement_at = 0.0
        self._left = False

    def register(self, url: str) -> None:
        self._url = url

    def heartbeat(self, buckets: int) -> Leases:
        """Start a session if there is none, and return the owners. Raises the driver's errors."""
        holder = self._find_holder() or self._begin()
        self._last_statement_at = monotonic()
        silence = {"lease_ms": LEASE_MS, "end_ms": END_MS}
        with holder.session.pipeline():
            holder.session.execute(CHECK_SESSION, holder.parameters)
            holder.session.execute(_END_SILENT_SESSIONS, {**_LOCK_NUMBERS, **silence})
            owners = holder.session.execute(_SELECT_OWNERS, _LOCK_NUMBERS)
        own_buckets = set()
        other_owners = {}
        replica_count = 0
        is_live = self._left
        for bucket, is_own, url in owners:
            if bucket < 0:
                replica_count += 1
                is_live = is_live or is_own
            elif is_own:
                own_buckets.add(bucket)
            else:
                other_owners[bucket] = url or ""
        if not is_live:
            self._lost = holder
            raise StoreUnavailable(_SESSION_LOST)
        return Leases(buckets, frozenset(own_buckets), other_owners, replica_count)

    def renew(self) -> bool:
        """Renew the leases in another session, or return false if this one has lost its locks.

        Any thread may call it. Raises the driver's errors.
        """
        if self._left:
            return True
        holder = self._find_holder()
        if holder is None:
            return False
        with self._renewing_lock:
            renewing = self._open_renewing()
            row = renewing.execute(_RENEW_LEASES, holder.parameters).fetchone()
        if row is not None:
            (is_same_session,) = row
            if is_same_session:
                raise StoreShared
            return True
        if not self._left:
            self._lost = holder
        return self._left

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        session = self.session()
        parameters = {**self.parameters, "buckets": sorted(buckets)}
        return frozenset(number for (number,) in session.execute(_ACQUIRE_BUCKETS, parameters))

    def release(self, buckets: Iterable[int]) -> None:
        session = self.session()
        parameters = {**self.parameters, "buckets": sorted(buckets)}
        session.execute(_RELEASE_BUCKETS, parameters)

    def leave(self) -> None:
        self._left = True
        holder = self._find_holder()
        if holder is not None:
            holder.session.execute(_RELEASE_ALL, holder.parameters)

    def session(self) -> Connection[Any]:
        holder = self._find_holder()
        if holder is None:
            raise StoreUnavailable(_SESSION_LOST)
        self._last_statement_at = monotonic()
        return holder.session

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `IS_OWN_SESSION` and of the locks."""
        return self._holder.parameters if self._holder else {}

    def touch(self) -> None:
        """Send a statement, because older controllers end a session that was silent."""
        if self._holder is not None and monotonic() - self._last_statement_at > TOUCH_S:
            self.session().execute("SELECT")

    def close(self) -> None:
        with suppress(Error):
            self.leave()
        if self._holder is not None:
            self._holder.session.close()
        with self._renewing_lock:
            if self._renewing is not None:
                self._renewing.close()

    def _find_holder(self) -> _Holder | None:
        """Return the session, unless it has ended or lost its locks."""
        holder = self._holder
        if holder is None or holder.session.closed or holder is self._lost:
            return None
        return holder

    def _begin(self) -> _Holder:
        if self._holder is not None:
            self._holder.session.close()
        session = self._connect()
        try:
            self._holder = self._start(session)
        except BaseException:
            session.close()
            raise
        return self._holder

    def _start(self, session: Connection[Any]) -> _Holder:
        token = secrets.token_hex(16)
        session.execute(_DELETE_CLOSED_REPLICAS)
        facts = (self._url, __version__, SCHEMA_REVISION, find_zone_release())
        with session.transaction():  # a pooler gives one session to a transaction
            if _fetch(session, _SELECT_TOKEN) != (None,):
                raise StoreShared
            for setting in (*_SESSION_SETTINGS, (_TOKEN_SETTING, token)):
                session.execute(SET_CONFIG, setting)
            pid, connected_at = _fetch(session, _REGISTER_REPLICA, facts)
            if not self._left:
                session.execute(_LOCK_LIVE, _LOCK_NUMBERS)
        return _Holder(session, pid, token, connected_at)

    def _open_renewing(self) -> Connection[Any]:
        if self._renewing is None or self._renewing.closed:
            renewing = self._connect()
            for setting in _RENEWAL_SETTINGS:
                renewing.execute(SET_CONFIG, setting)
            self._renewing = renewing
        return self._renewing


def _fetch(session: Connection[Any], statement: str, parameters: Any = None) -> tuple[Any, ...]:  # noqa: ANN401 - as the driver's
    return session.execute(statement, parameters).fetchone() or ()
