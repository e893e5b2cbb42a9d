"""Parses the histories of tables from rows.

For Delta, these are the rows of `DESCRIBE HISTORY` or deltalake's `DeltaTable.history()`. For
Iceberg, they are the rows of the metadata table `snapshots`, joined with `refs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noted_time.extending import Rejected
from noted_time_extensions.tables.claim import LARGEST_RECORD, parse_claims
from noted_time_extensions.tables.table_history import Change, Commit, TableHistory

Row = Mapping[str, Any]

NO_PROPERTIES: Mapping[str, str] = {}

MAIN_BRANCH = "main"
USER_METADATA = "userMetadata"

SAME_ROWS_OPERATIONS = frozenset(
    """OPTIMIZE|COMPUTE STATS|VACUUM START|VACUUM END|ADD COLUMN|ADD COLUMNS|CHANGE COLUMN|
    REORG|ADD CONSTRAINT|DROP CONSTRAINT|ADD FEATURE|DROP FEATURE|
    SET TBLPROPERTIES|UNSET TBLPROPERTIES|UPDATE TABLE METADATA|UPDATE FIELD METADATA|
    UPGRADE PROTOCOL|CLUSTER BY|CREATE TABLE|UPDATE SCHEMA""".replace("\n    ", "").split("|")
)

RENAME_OPERATION = "RENAME COLUMN"
"""Ends the claims about the column."""

APPEND_PARAMETERS = {"WRITE": "mode", "STREAMING UPDATE": "outputMode"}

EXPIRED_PARENT = -1
"""pyiceberg does not report an expired parent."""

NOT_A_HISTORY = (
    "these rows are not the history of a table: pass the rows of DESCRIBE HISTORY (version, "
    "operation) or of Iceberg's snapshots (snapshot_id, parent_id, operation, summary)"
)
WHICH_SNAPSHOT = (
    "the table's present snapshot is not known: after a rollback it need not be the newest; add "
    "the column `ref` of its table `refs`, or pass the snapshot as at="
)


def history_of(
    rows: Sequence[Row],
    properties: Mapping[str, str] = NO_PROPERTIES,
    *,
    at: int | str | None = None,
    table: str = "",
) -> TableHistory:
    """Return the history in `rows`, in any order, or raise `Rejected`.

    `at` is a version, or a snapshot, branch or tag. `table` is the table's id.

    >>> claim = json.dumps({"complete_to": 50, "batch": ["q", 0], "id": "a"})
    >>> first = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "version": 0}
    >>> rows = [first | {"userMetadata": json.dumps({"noted-time.flights": claim})}]
    >>> history_of(rows).claim().complete_to
    50
    """
    if all("version" in row and "operation" in row for row in rows):
        return _build_delta_history(rows, properties, at, table)
    if not all({"snapshot_id", "parent_id", "operation"} <= row.keys() for row in rows):
        raise Rejected(NOT_A_HISTORY)
    head = _find_head(rows, at)
    commits = {row["snapshot_id"]: parse_iceberg_commit(row) for row in rows}
    chain = list(_list_ancestors(head, commits))[::-1]
    return TableHistory(chain, properties, table)


def _build_delta_history(
    rows: Sequence[Row], properties: Mapping[str, str], at: int | str | None, table: str
) -> TableHistory:
    commits = sorted((parse_delta_commit(row) for row in rows), key=lambda commit: commit.id)
    if at is not None and commits:
        newest_version = commits[-1].id
        if not str(at).isdecimal() or int(at) > newest_version:
            raise Rejected(
                f"there is no version {at!r} of the table: the newest is {newest_version}"
            )
        commits = [commit for commit in commits if commit.id <= int(at)]
    return TableHistory(commits, properties, table, is_numbered=True)


def parse_delta_commit(row: Row) -> Commit:
    try:
        version = int(row["version"])
    except (ValueError, TypeError) as error:
        raise Rejected(NOT_A_HISTORY) from error
    operation = str(row["operation"] or "a commit that does not say what it does")
    parameters = row.get("operationParameters")
    if not isinstance(parameters, Mapping):
        parameters = {}
    renamed_columns: tuple[str, ...] = ()
    if operation == RENAME_OPERATION:
        old_column = str(parameters.get("oldColumnPath", ""))
        new_column = str(parameters.get("newColumnPath", ""))
        renamed_columns = (old_column, new_column)
    mode = parameters.get(APPEND_PARAMETERS.get(operation, ""), "")
    change = _find_delta_change(operation, mode, version)
    if mode and change != "append":
        operation = f"{operation} ({mode})"
    claims = parse_claims(_parse_metadata(row.get(USER_METADATA)))
    parent = version - 1 if version else None
    current_since = row.get("timestamp")
    if not isinstance(current_since, int):
        current_since = 0  # engines list it as a local time
    return Commit(version, parent, change, operation, claims, renamed_columns, current_since)


def _find_delta_change(operation: str, mode: object, version: int) -> Change:
    """Return how a commit changes the rows. The first one has none to replace."""
    if mode == "Append":
        return "append"
    if operation == RENAME_OPERATION or operation in SAME_ROWS_OPERATIONS:
        return "none"
    if version == 0:
        return "append"
    return "other"


def parse_iceberg_commit(row: Row) -> Commit:
    operation = str(row["operation"])
    summary = dict(row.get("summary") or {})
    changes: dict[str, Change] = {"append": "append", "replace": "none"}
    change = changes.get(operation, "other")
    parent = row["parent_id"]
    added_count = str(summary.get("added-records", 0))
    total_count = str(summary.get("total-records", 0))
    if parent is None and (change == "none" or added_count != total_count):
        parent = EXPIRED_PARENT
    return Commit(int(row["snapshot_id"]), parent, change, operation, parse_claims(summary))


def _parse_metadata(text: object) -> Row:
    if not isinstance(text, str) or len(text) > LARGEST_RECORD:
        return {}
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _find_head(rows: Iterable[Row], at: int | str | None) -> int | None:
    target = at
    if at is None:
        target = MAIN_BRANCH
    for row in rows:
        if row["snapshot_id"] == target or row.get("ref") == target:
            return int(row["snapshot_id"])
    if at is not None:
        raise Rejected(f"there is no snapshot, branch or tag {at!r}")
    if not any("ref" in row for row in rows):
        raise Rejected(WHICH_SNAPSHOT)
    return None


def _list_ancestors(head: int | None, commits: Mapping[int, Commit]) -> Iterable[Commit]:
    visited_ids: set[int] = set()
    while head is not None and head not in visited_ids and head in commits:
        visited_ids.add(head)
        yield commits[head]
        head = commits[head].parent
