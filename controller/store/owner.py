"""The one session of a PostgreSQL database in which a controller may write.

It holds an advisory lock, which the server takes back when the session ends, however it ends. Who
stands by asks the server, by the server's clock, whether it has heard nothing of the owner for
`LEASE_MS`, and then ends that session: so the lock is a lease, renewed by every commit. All commits
are made in this very session. So there is no moment in which a controller that lost the lease could
still write: it lost the session with it, and what it had not committed.

A session that is lost is not replaced behind the caller's back: another controller may have written
in between, so what the caller remembers is to be read again first. `take` is where reading begins.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from psycopg.errors import LockNotAvailable

from controller.store.port import Standby, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

LEASE_MS = 3000
"""How long an owner may be silent, in ms, before another takes its place."""

RENEW_S = 1.0
"""How old the last word to the server may grow while streams are loaded, in seconds."""

TURN_MS = 500
"""How long one attempt to become the owner waits for the other to go, in ms."""

PATIENCE_MS = 5000
"""How long a statement waits for a lock on rows or tables, in ms."""

_NAME = int.from_bytes(b"note")

# One lock for each schema, as each may hold the tables of a controller.
_LOCK = "SELECT pg_advisory_lock(%s, hashtext(current_schema()))"

# Whose lock it is, unless the server is at work for it. Since when it waits for the client's next
# word is `state_change`; within a statement that was sent in part, the wait says so itself.
_END_THE_SILENT = """
SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid = %s AND objid = hashtext(current_schema())::oid
AND (state <> 'active' OR wait_event_type = 'Client')
AND clock_timestamp() - state_change > %s * interval '1 ms'
"""


class Owner:
    """The session that owns the database, or waits to."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        """Begin without a session; `connect` returns one in autocommit mode."""
        self._connect = connect
        self._session: Connection[Any] | None = None
        self._owns = False
        self._said_at = 0.0

    def take(self) -> None:
        """Become the owner unless this one is; raises `Standby` where another is.

        May raise the driver's errors. What was read before counts no more where a new session had
        to be made.
        """
        if self._session is None or self._session.closed:
            self._owns = False
            self._session = self._connect()
            # the server's own default might be to answer before the disk did
            _set(self._session, "synchronous_commit", "on")
        if not self._owns:
            self._lock(self._session)
        self._said_at = monotonic()

    def session(self) -> Connection[Any]:
        """Return the session; raises `StoreUnavailable` where it was lost, `Standby` likewise."""
        if self._session is None:
            self.take()
        if self._session is None or self._session.closed or not self._owns:
            raise StoreUnavailable("the session with the database was lost; read again")
        self._said_at = monotonic()
        return self._session

    def renew(self) -> None:
        """Let the server hear of the owner where that was a while ago."""
        if monotonic() - self._said_at > RENEW_S:
            self.session().execute("SELECT")

    def close(self) -> None:
        """End the session, which hands the database to whoever waits for it."""
        if self._session is not None:
            self._session.close()

    def _lock(self, session: Connection[Any]) -> None:
        _set(session, "lock_timeout", TURN_MS)
        session.execute(_END_THE_SILENT, (_NAME, LEASE_MS))
        try:
            session.execute(_LOCK, (_NAME,))
        except LockNotAvailable as error:
            raise Standby("another controller serves the database; this one stands by") from error
        self._owns = True
        _set(session, "lock_timeout", PATIENCE_MS)


def _set(session: Connection[Any], name: str, value: object) -> None:
    session.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
