"""A column of many rows as an array in PostgreSQL's binary form, made in one go.

psycopg makes arrays too, asking each value for its type: with these a commit of 64 members takes
this process a third less. What a value is, the column says.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection


class Texts(tuple[str, ...]):
    """A column of text."""

    __slots__ = ()


class Bigints(tuple[int, ...]):
    """A column of int64."""

    __slots__ = ()


class Booleans(tuple[bool, ...]):
    """A column of booleans."""

    __slots__ = ()


_HEAD = Struct(">iiiii").pack
_LENGTH = Struct(">i").pack
_BIGINT = Struct(">iq").pack
_BOOLEAN = {each: Struct(">i?").pack(1, each) for each in (False, True)}


class _ArrayDumper(Dumper):
    """Of one type of elements; raises `struct.error` for what is no int64."""

    format = Format.BINARY
    element = ""

    def __init__(self, cls: type, context: Any = None) -> None:  # noqa: ANN401 - psycopg's
        super().__init__(cls, context)
        found = types[self.element]
        self.oid, self._element = found.array_oid, found.oid

    def dump(self, obj: Any) -> bytes:  # noqa: ANN401 - psycopg's
        """Return the array: one dimension from 1 on, no nulls, and each value after its length."""
        return b"".join((_HEAD(1, 0, self._element, len(obj), 1), *self.values(obj)))

    def values(self, column: Any) -> Iterable[bytes]:  # noqa: ANN401 - as `dump`
        """Return the elements."""
        raise NotImplementedError


class _TextsDumper(_ArrayDumper):
    element = "text"

    def values(self, column: Texts) -> Iterable[bytes]:
        return [_LENGTH(len(each)) + each for each in map(str.encode, column)]


class _BigintsDumper(_ArrayDumper):
    element = "int8"

    def values(self, column: Bigints) -> Iterable[bytes]:
        return [_BIGINT(8, each) for each in column]


class _BooleansDumper(_ArrayDumper):
    element = "bool"

    def values(self, column: Booleans) -> Iterable[bytes]:
        return [_BOOLEAN[each] for each in column]


def register(session: Connection[Any]) -> None:
    """Let the session take these columns as parameters."""
    session.adapters.register_dumper(Texts, _TextsDumper)
    session.adapters.register_dumper(Bigints, _BigintsDumper)
    session.adapters.register_dumper(Booleans, _BooleansDumper)
