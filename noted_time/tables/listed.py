"""Histories of tables as rows, as each engine lists them.

Delta: `DESCRIBE HISTORY`, or `DeltaTable.history()` of deltalake. Iceberg: the metadata table
`snapshots`, whose rows are joined with `refs` so that they say where the table is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from noted_time.reading import Change, Commit, TableHistory
from noted_time.values import Rejected, claims_in

Row = Mapping[str, Any]

MAIN = "main"
USER_METADATA = "userMetadata"

SAME_ROWS = frozenset(
    """OPTIMIZE|COMPUTE STATS|VACUUM START|VACUUM END|ADD COLUMN|ADD COLUMNS|CHANGE COLUMN|
    REORG|RENAME COLUMN|ADD CONSTRAINT|DROP CONSTRAINT|ADD FEATURE|DROP FEATURE|
    SET TBLPROPERTIES|UNSET TBLPROPERTIES|UPDATE TABLE METADATA|UPDATE FIELD METADATA|
    UPGRADE PROTOCOL|CLUSTER BY|CREATE TABLE|UPDATE SCHEMA""".replace("\n    ", "").split("|")
)
"""What Delta calls operations that neither add nor remove data."""

APPENDS = {"WRITE": "mode", "STREAMING UPDATE": "outputMode"}
"""Operations that append under this parameter, and the parameter."""

CUT_OFF = -1
"""The parent of a snapshot whose own is gone: pyiceberg names none when it expires snapshots."""

NOT_A_HISTORY = (
    "these rows are no history of a table: expected are those of DESCRIBE HISTORY (version, "
    "operation) or of Iceberg's snapshots (snapshot_id, parent_id, operation, summary)"
)
WHERE = (
    "which of these snapshots is the table at? After a roll back it need not be the newest: add "
    "the column `ref` of its table `refs`, or name the snapshot with at="
)


def history_of(
    rows: Sequence[Row],
    *,
    expects: tuple[str, ...] = (),
    at: int | str | None = None,
    last_number: int = 0,
) -> TableHistory:
    """Return the history that rows list, in any order; raises `Rejected` if they list none.

    >>> claim = json.dumps({"noted-time.flights": {"complete_to": 50}})
    >>> append = {"operation": "WRITE", "operationParameters": {"mode": "Append"}}
    >>> rows = [append | {"version": 1}, append | {"version": 0, "userMetadata": claim}]
    >>> history_of(rows).claim().complete_to
    50
    """
    if all("version" in row and "operation" in row for row in rows):
        versions = sorted((delta_commit(row) for row in rows), key=lambda each: each.id)
        until = [each for each in versions if at is None or each.id <= int(at)]
        return TableHistory(until, (), expects)
    if not all({"snapshot_id", "parent_id", "operation"} <= row.keys() for row in rows):
        raise Rejected(NOT_A_HISTORY)
    head = _head(rows, at)
    commits = {row["snapshot_id"]: iceberg_commit(row) for row in rows}
    chain = list(_ancestors(head, commits.get))[::-1]
    ids = {each.id for each in chain}
    strays = [each for each in commits.values() if each.id not in ids]
    return TableHistory(chain, strays, expects, last_number)


def delta_commit(row: Row) -> Commit:
    """Return the commit that a row of Delta's history is of."""
    version, operation = int(row["version"]), str(row["operation"])
    given = row.get("operationParameters") or {}
    change: Change = "none" if operation in SAME_ROWS else "other"
    mode = given.get(APPENDS.get(operation, ""), "")
    if mode == "Append" or (change == "other" and version == 0):
        change = "append"
    elif mode:
        operation = f"{operation} ({mode})"
    claims = claims_in(_metadata(row.get(USER_METADATA)))
    return Commit(version, version - 1 if version else None, change, operation, claims)


def iceberg_commit(row: Row) -> Commit:
    """Return the commit that a row of Iceberg's snapshots is of."""
    operation, summary = str(row["operation"]), row.get("summary") or {}
    changes: dict[str, Change] = {"append": "append", "replace": "none"}
    summary = dict(summary)
    number = int(row.get("sequence_number") or 0)
    change = changes.get(operation, "other")
    rows = (int(summary.get(key, 0)) for key in ("added-records", "total-records"))
    parent = row["parent_id"]
    if parent is None and (change == "none" or len(set(rows)) > 1):
        parent = CUT_OFF
    return Commit(int(row["snapshot_id"]), parent, change, operation, claims_in(summary), number)


def _metadata(text: object) -> Row:
    """Return the user's metadata of a commit of Delta, nothing if it is not a JSON object."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _head(rows: Iterable[Row], at: int | str | None) -> int | None:
    """Return the snapshot that the table is at, `None` for a table without one."""
    wanted = MAIN if at is None else at
    for row in rows:
        if row["snapshot_id"] == wanted or row.get("ref") == wanted:
            return int(row["snapshot_id"])
    if any("ref" in row for row in rows) and at is None:
        return None
    if any(True for _ in rows):
        raise Rejected(WHERE if at is None else f"there is no snapshot, branch or tag {at!r}")
    return None


def _ancestors(head: int | None, commit_of: Callable[[int], Commit | None]) -> Iterable[Commit]:
    while head is not None and (commit := commit_of(head)) is not None:
        yield commit
        head = commit.parent
