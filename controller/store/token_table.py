"""The tokens of a database: digests of their secrets, and their scopes.

A row is never deleted, so `counts` shows any change. A database with a token requires tokens
forever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import asdict
from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from controller.store.reading import build_unavailable
from controller.store.records import TokenRecord
from controller.store.schema import RECORD_TABLES
from noted_time import Conflict

token = RECORD_TABLES[TokenRecord]


class Tokens:
    """The tokens of a database; calls block and may raise `StoreUnavailable`."""

    def __init__(self, reading: Engine, writing: Engine) -> None:
        self._reading = reading
        self._writing = writing

    def counts(self) -> tuple[int, int]:
        """Return how many tokens were ever created, and how many revoked."""
        query = select(func.count(), func.count(token.c.revoked_at)).select_from(token)
        with _convert_errors(self._reading), self._reading.connect() as connection:
            created_count, revoked_count = connection.execute(query).one()
        return created_count, revoked_count

    def all(self) -> list[TokenRecord]:
        query = select(token).order_by(token.c.created_at, token.c.id)
        with _convert_errors(self._reading), self._reading.connect() as connection:
            rows = [row._asdict() for row in connection.execute(query)]
        return [TokenRecord(**row | {"scopes": json.loads(row["scopes"])}) for row in rows]

    def add(self, record: TokenRecord) -> None:
        """Raise `Conflict` if the id exists."""
        row = asdict(record) | {"scopes": json.dumps(record.scopes)}
        with _convert_errors(self._writing), self._writing.begin() as connection:
            connection.execute(insert(token).values(row))

    def revoke(self, token_id: str, at_ms: int) -> bool:
        """Return whether the token was valid."""
        living = token.c.id == token_id, token.c.revoked_at.is_(None)
        with _convert_errors(self._writing), self._writing.begin() as connection:
            result = connection.execute(update(token).where(*living).values(revoked_at=at_ms))
        return result.rowcount == 1

    def close(self) -> None:
        self._reading.dispose()


@contextmanager
def _convert_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"a token with this id already exists: {error.orig}") from error
    except SQLAlchemyError as error:
        raise build_unavailable(error, engine) from error
