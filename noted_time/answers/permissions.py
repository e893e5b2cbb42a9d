"""The rights of a token, without I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from noted_time.values import Rejected

SCOPE_NAMES = ("admin", "write", "observe", "read")
PATTERN_FORM = re.compile(r"[A-Za-z0-9._*-]{1,249}", re.ASCII)
MOST_PATTERNS = 1000


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns of names, where ``*`` stands for any characters.

    >>> flights = Patterns(("flights", "eu.*.late"))
    >>> [flights.match(name) for name in ("flights", "flights2", "eu.west.late", "eu.late")]
    [True, False, True, False]
    """

    patterns: tuple[str, ...] = ()
    exact: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.patterns) > MOST_PATTERNS:
            raise Rejected(f"more than {MOST_PATTERNS} patterns")
        for pattern in self.patterns:
            if not PATTERN_FORM.fullmatch(pattern):
                raise Rejected(
                    f"pattern {pattern[:260]!r} is not 1 to 249 characters of A-Z a-z 0-9 . _ - *"
                )
        exact_names = frozenset(pattern for pattern in self.patterns if "*" not in pattern)
        object.__setattr__(self, "exact", exact_names)

    @property
    def match_all(self) -> bool:
        return "*" in self.patterns

    def match(self, name: str) -> bool:
        if name in self.exact:
            return True
        return any(fnmatchcase(name, pattern) for pattern in self.patterns if "*" in pattern)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one token.

    A writer needs no right to read, because the answer to a note has the lower. `writers` limits
    the right to write; only an admin may note a dead writer as finished. Who may `observe` states
    how the event times of a log are read.

    >>> carrier = Grant(write=Patterns(("flights*",)), writers=Patterns(("UA", "UA-*")))
    >>> carrier.may_write("flights"), carrier.find_foreign(["UA-7", "DL"])
    (True, 'DL')
    """

    admin: bool = False
    read: Patterns = Patterns()
    write: Patterns = Patterns()
    writers: Patterns = Patterns(("*",))
    observe: Patterns = Patterns()

    def may_administer(self) -> bool:
        return self.admin

    def may_read(self, stream: str) -> bool:
        """Return whether the token may read and report positions."""
        return self.admin or self.read.match(stream)

    def may_read_all(self) -> bool:
        return self.admin or self.read.match_all

    def may_write(self, stream: str) -> bool:
        return self.admin or self.write.match(stream)

    def may_observe(self, stream: str) -> bool:
        return self.admin or self.observe.match(stream)

    def is_bound(self) -> bool:
        return not (self.admin or self.writers.match_all)

    def find_foreign(self, writers: Iterable[str]) -> str | None:
        return next((writer for writer in writers if not self.writers.match(writer)), None)

    @classmethod
    def of(
        cls, scopes: Collection[str], streams: Collection[str] = (), writers: Collection[str] = ()
    ) -> Self:
        """Return the grant of these scopes on these streams, or on all streams if none are given.

        Raises `Rejected` for an unknown scope, and for streams or writers without effect.
        """
        for scope in scopes:
            if scope not in SCOPE_NAMES:
                raise Rejected(f"unknown scope {scope!r}: use {', '.join(SCOPE_NAMES)}")
        if not scopes:
            raise Rejected(f"a token needs a scope: use {', '.join(SCOPE_NAMES)}")
        if "admin" in scopes and (streams or writers):
            raise Rejected("--scope admin has no limits: leave out --stream and --writer")
        if writers and "write" not in scopes:
            raise Rejected("--writer requires --scope write")
        stream_patterns = Patterns(tuple(streams) or ("*",))
        return cls(
            admin="admin" in scopes,
            read=stream_patterns if "read" in scopes else Patterns(),
            write=stream_patterns if "write" in scopes else Patterns(),
            writers=Patterns(tuple(writers) or ("*",)),
            observe=stream_patterns if "observe" in scopes else Patterns(),
        )

    def __str__(self) -> str:
        """Return the rights in words.

        >>> str(Grant.of(["write", "read"], ["flights"], ["UA"]))
        'read flights; write flights as UA'
        """
        if self.admin:
            return "administer"
        read_clause = ""
        if self.read.patterns:
            read_clause = f"read {' '.join(self.read.patterns)}"
        write_clause = ""
        if self.write.patterns:
            write_clause = f"write {' '.join(self.write.patterns)}"
        writers_clause = ""
        if write_clause and self.is_bound():
            writers_clause = f" as {' '.join(self.writers.patterns)}"
        observe_clause = ""
        if self.observe.patterns:
            observe_clause = f"observe {' '.join(self.observe.patterns)}"
        return "; ".join(
            part for part in (read_clause, write_clause + writers_clause, observe_clause) if part
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "admin": self.admin,
            "read": list(self.read.patterns),
            "write": list(self.write.patterns),
            "writers": list(self.writers.patterns),
            "observe": list(self.observe.patterns),
        }

    @classmethod
    def from_json(cls, grant: Mapping[str, Any]) -> Self:
        """Grant nothing for missing entries."""
        return cls(
            admin=grant.get("admin", False) is True,
            read=Patterns(tuple(grant.get("read", ()))),
            write=Patterns(tuple(grant.get("write", ()))),
            writers=Patterns(tuple(grant.get("writers", ()))),
            observe=Patterns(tuple(grant.get("observe", ()))),
        )


FULL_GRANT = Grant(admin=True)
