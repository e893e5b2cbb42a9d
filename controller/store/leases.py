"""The one session of a PostgreSQL database in which a controller may write, and what it owns by it.

Streams fall into buckets by their names. The lease of a bucket is an advisory lock, which the
server takes back when the session ends, however it ends. Every controller looks, once a second,
whether the server by its own clock has heard nothing of another for `LEASE_MS`, and then ends that
session: so the locks are leases, renewed by every word to the server. All commits of a controller
are made in this very session. So there is no moment in which one that lost a lease could still
write: it lost the session with it, and what it had not committed.

A session that is lost is not replaced behind the caller's back: another controller may have written
in between, so what the caller remembers is to be read again first. `look` is where that begins.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from psycopg import Error

from controller.store.notices import LeasesChanged, tell
from controller.store.port import Leases, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg import Connection

LEASE_MS = 3000
"""How long a controller may be silent, in ms, before others take its buckets."""

RENEW_S = 1.0
"""How old the last word to the server may grow while streams are loaded, in seconds."""

END_MS = 500
"""How long to wait for the end of a session that was told to end, in ms."""

PATIENCE_MS = 5000
"""How long a statement waits for a lock on rows or tables, in ms."""

# Locks are pairs of numbers: the schema, as each may hold the tables of a controller, and a bucket
# from `first` on. Just below lies the lock that every controller shares in as long as it lives.
_NUMBERS = {"first": int.from_bytes(b"note"), "lives": int.from_bytes(b"note") - 1}

# Unless the server is at work for it. Since when it waits for the client's next word is
# `state_change`; within a statement that was sent in part, the wait says so itself.
_END_THE_SILENT = """
SELECT pg_terminate_backend(pid, %(end_ms)s) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = hashtext(current_schema())::oid AND objid = %(lives)s
AND (state <> 'active' OR wait_event_type = 'Client')
AND clock_timestamp() - state_change > %(lease_ms)s * interval '1 ms'
"""

_LOOK = """
SELECT objid::bigint - %(first)s, pid = pg_backend_pid(), url
FROM pg_locks LEFT JOIN replica USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = hashtext(current_schema())::oid AND objid >= %(lives)s
"""

_TAKE = """
SELECT number FROM unnest(%(buckets)s::int[]) number
WHERE pg_try_advisory_lock(hashtext(current_schema()), %(first)s + number)
"""

_GIVE = """
SELECT pg_advisory_unlock(hashtext(current_schema()), %(first)s + number)
FROM unnest(%(buckets)s::int[]) number
"""

_ENTER = """
INSERT INTO replica VALUES (pg_backend_pid(), %s) ON CONFLICT (pid) DO UPDATE SET url = excluded.url
"""
_LIVE = "SELECT pg_advisory_lock_shared(hashtext(current_schema()), %(lives)s)"
_TIDY = "DELETE FROM replica WHERE pid NOT IN (SELECT pid FROM pg_stat_activity)"
_LEAVE = "SELECT pg_advisory_unlock_all()"


class LeaseSession:
    """The session in which one controller holds leases and commits."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        """Begin without a session; `connect` returns one in autocommit mode."""
        self._connect = connect
        self._session: Connection[Any] | None = None
        self._url = ""
        self._said_at = 0.0
        self._left = False

    def enter(self, url: str) -> None:
        """Say where other controllers find this one, from the next session on."""
        self._url = url

    def look(self, buckets: int) -> Leases:
        """End the sessions that are silent, and return who has which of the buckets.

        Begins a session where there is none; its controller then has nothing yet. May raise the
        driver's errors.
        """
        if self._session is None or self._session.closed:
            self._session = self._begin()
        self._said_at = monotonic()
        self._session.execute(_END_THE_SILENT, {**_NUMBERS, "lease_ms": LEASE_MS, "end_ms": END_MS})
        mine, others, replicas = set(), {}, 0
        for bucket, own, url in self._session.execute(_LOOK, _NUMBERS):
            if bucket < 0:
                replicas += 1
            elif own:
                mine.add(bucket)
            else:
                others[bucket] = url or ""
        return Leases(buckets, frozenset(mine), others, replicas)

    def take(self, buckets: Iterable[int]) -> frozenset[int]:
        """Take those of the buckets that nobody has; returns which."""
        session = self.session()
        taken = frozenset(number for (number,) in session.execute(_TAKE, _named(buckets)))
        if taken:
            tell(session, LeasesChanged())
        return taken

    def give(self, buckets: Iterable[int]) -> None:
        """Let others take the buckets, which this controller has."""
        session = self.session()
        session.execute(_GIVE, _named(buckets))
        tell(session, LeasesChanged())

    def leave(self) -> None:
        """Let others take all buckets, and live no more; a session that is lost has done so."""
        self._left = True
        if self._session is not None and not self._session.closed:
            self._session.execute(_LEAVE)
            tell(self._session, LeasesChanged())

    def session(self) -> Connection[Any]:
        """Return the session; raises `StoreUnavailable` where it was lost."""
        if self._session is None or self._session.closed:
            raise StoreUnavailable("the session with the database was lost; read again")
        self._said_at = monotonic()
        return self._session

    def renew(self) -> None:
        """Let the server hear of the controller where that was a while ago."""
        if self._session is not None and monotonic() - self._said_at > RENEW_S:
            self.session().execute("SELECT")

    def close(self) -> None:
        """End the session, which hands all buckets to whoever looks next."""
        if self._session is None:
            return
        with suppress(Error):  # lost meanwhile
            self.leave()
        self._session.close()

    def _begin(self) -> Connection[Any]:
        session = self._connect()
        # the server's own default might be to answer before the disk did
        _set(session, "synchronous_commit", "on")
        _set(session, "lock_timeout", PATIENCE_MS)
        session.execute(_TIDY)
        session.execute(_ENTER, (self._url,))
        if not self._left:
            session.execute(_LIVE, _NUMBERS)
        tell(session, LeasesChanged())
        return session


def _named(buckets: Iterable[int]) -> dict[str, Any]:
    return {**_NUMBERS, "buckets": sorted(buckets)}


def _set(session: Connection[Any], name: str, value: object) -> None:
    session.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
