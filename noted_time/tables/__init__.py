"""What tables are complete to, by the claims in their commits: of Delta and of Iceberg.

A table is opened by deltalake or pyiceberg, or its history is given as rows of another engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from noted_time.reading import Commit, NoClaim, TableClaim, TableHistory, build_acceptance
from noted_time.tables.history_rows import history_of
from noted_time.tables.table_urls import append_nothing, open_history
from noted_time.values import Claim, Rejected

__all__ = [
    "NoClaim",
    "TableClaim",
    "TableHistory",
    "accept",
    "complete_to",
    "history_of",
    "since_claims",
    "standing",
]

Table = str | Sequence[Mapping[str, Any]]
"""A URL, ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``, or rows of a history."""


def complete_to(
    table: Table, names: Iterable[str] | None = None, *, at: int | str | None = None
) -> TableClaim | None:
    """Return the claim of a table, `None` if nothing is claimed; `standing` says why.

    See `standing` for the arguments and errors.
    """
    found = standing(table, names, at=at)
    return None if isinstance(found, NoClaim) else found


def standing(
    table: Table, names: Iterable[str] | None = None, *, at: int | str | None = None
) -> TableClaim | NoClaim:
    """Return what a table is complete to, or why that is not known.

    `table` is ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``, or the rows of ``DESCRIBE HISTORY`` or
    of Iceberg's ``snapshots``. `names` are those that must have claimed it: those that the table
    expects, if not given. `at` is a version of Delta, or a snapshot, branch or tag of Iceberg; the
    present one if not given.

    Raises `Rejected` for a table that does not exist and for rows that are no history. Raises
    `Unreachable` if the table cannot be read now, and `ImportError` that says what to install.
    """
    history = open_history(table, at) if isinstance(table, str) else history_of(table, at=at)
    return history.claim(tuple(names) if names is not None else None)


def accept(url: str, comment: str, names: Iterable[str] = (), *, at: int) -> list[Claim]:
    """Vouch for a table whose claims have ended, as it was looked at; returns what was committed.

    `at` is the version or snapshot that was looked at. What changed rows after it, also beside this
    call, ends the claims again. Raises as `standing`, and `Rejected` if no claim has ended, there
    is no comment, or the table has no commit `at`.
    """
    if not comment.strip():
        raise Rejected("a claim is accepted with a comment: who vouches for the table, and why")
    found = build_acceptance(open_history(url), comment, tuple(names), at=at)
    records = [replace(claim, id=token_hex(8)) for claim in found]
    append_nothing(url, {claim.key: claim.to_json() for claim in records})
    return records


def since_claims(url: str, names: Iterable[str] = ()) -> list[Commit]:
    """Return the commits after the last one that counted, which `accept` asks to look at.

    Raises as `standing`.
    """
    history = open_history(url)
    found = history.standings()
    places = [each.ended_at for name, each in found.items() if name in (tuple(names) or found)]
    return list(history.commits[max(min(places, default=0), 0) :])
