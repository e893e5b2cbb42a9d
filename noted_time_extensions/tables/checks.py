"""Returns the claims of tables, and accepts them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from noted_time.extending import Rejected
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import build_acceptance
from noted_time_extensions.tables.history_rows import history_of
from noted_time_extensions.tables.table_history import Commit, NoClaim, TableClaim
from noted_time_extensions.tables.table_urls import LoadedTable, open_history

Table = str | Sequence[Mapping[str, Any]]
"""A URL, ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``, or the rows of a history."""


def complete_to(
    table: Table, names: Iterable[str] | None = None, *, at: int | str | None = None
) -> TableClaim | None:
    """Return a table's valid claim, or `None`; see `standing`."""
    claim = standing(table, names, at=at)
    if isinstance(claim, NoClaim):
        return None
    return claim


def standing(
    table: Table, names: Iterable[str] | None = None, *, at: int | str | None = None
) -> TableClaim | NoClaim:
    """Return a table's claim, or the reason why it has none.

    `table` is ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``, or the rows of ``DESCRIBE HISTORY`` or
    of Iceberg's ``snapshots``. `names` are the required claims, by default the names that the table
    expects. `at` is a version of Delta, or a snapshot, branch or tag of Iceberg, by default the
    current one.

    Raises `Rejected` for a missing table or rows that are not a history, `Unreachable`, and
    `ImportError` if a package must be installed.
    """
    if isinstance(table, str):
        history = open_history(table, at)
    else:
        history = history_of(table, at=at)
    return history.claim(tuple(names) if names is not None else None)


def accept(url: str, comment: str, names: Iterable[str] = (), *, at: int) -> list[Claim]:
    """Vouch for a table whose claims have ended, and return the committed records.

    `at` is the inspected version or snapshot: if rows change after it, the claims end again. Raises
    as `standing`, `Rejected` if no claim has ended or the comment is empty, and `Conflict` if
    another commit came first.
    """
    if not comment.strip():
        raise Rejected("the comment is empty: say who vouches for the table, and why")
    table = LoadedTable(url)
    claims = build_acceptance(table.history, comment, tuple(names), at=at)
    records = [replace(claim, id=token_hex(8)) for claim in claims]
    table.append_nothing({claim.key: claim.to_json() for claim in records})
    return records


def since_claims(url: str, names: Iterable[str] = ()) -> list[Commit]:
    """Return the commits to inspect before `accept`: all from the first one that ended a claim.

    Raises as `standing`.
    """
    history = open_history(url)
    wanted_names = tuple(names)
    places = []
    for name, status in history.statuses().items():
        if status.claim is not None and (not wanted_names or name in wanted_names):
            places.append(status.ended_at)
    if not places:
        return []
    first_place = max(min(places), 0)
    return list(history.commits[first_place:])
