"""A statement that PostgreSQL was sent and has not answered yet, for an event loop to wait on.

psycopg waits for each answer on the thread that asked. Under load that thread and the loop take the
interpreter's lock from each other, and a commit through psycopg's layers costs three times what
libpq needs for it. Here libpq is asked itself: the statement goes out at once, its answer is read
when it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from psycopg import Connection
    from psycopg.pq.abc import PGresult


class SentStatement:
    """A prepared statement in a session that commits each, and that does nothing else meanwhile."""

    def __init__(
        self,
        session: Connection[Any],
        name: bytes,
        columns: Sequence[bytes],
        border: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Send it with parameters in binary form; `border` makes the driver's errors ours.

        Raises those of the driver.
        """
        self._libpq = session.pgconn
        self._border = border
        self._libpq.send_query_prepared(name, columns, [Format.BINARY] * len(columns))
        self._unsent = self._libpq.flush()
        self._socket = self._libpq.socket

    def fileno(self) -> int:
        """Return the file descriptor of the session's socket."""
        return self._socket

    @property
    def is_flushed(self) -> bool:
        """Whether all of it was sent."""
        return not self._unsent

    def go_on(self) -> bool:
        """Send and read what can be without waiting; returns whether it is done."""
        with self._border():
            if self._unsent:
                self._unsent = self._libpq.flush()
            self._libpq.consume_input()
            if self._libpq.is_busy():
                return False
            _check(self._results())
            return True

    def _results(self) -> list[PGresult]:
        found = []
        while (result := self._libpq.get_result()) is not None:
            found.append(result)
        return found


def _check(results: Sequence[PGresult]) -> None:
    """Raise the driver's error where the statement failed, or nothing came of it."""
    for result in results:
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
    if not results:
        raise OperationalError("the session ended without an answer")
