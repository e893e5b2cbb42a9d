"""Open tables with deltalake and pyiceberg, and read their histories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from noted_time.extending import Conflict, Rejected, Unreachable, Unreadable, require_extra
from noted_time_extensions.tables.delta_log import DeltaLog
from noted_time_extensions.tables.history_rows import MAIN_BRANCH, history_of
from noted_time_extensions.tables.table_history import Commit, TableHistory

TABLE_KINDS = ("delta", "iceberg")
URL_FORMS = "delta:LOCATION or iceberg:CATALOG.TABLE"

CHANGED_MEANWHILE = (
    "{} was changed while the claim was committed, so nothing is committed: check its new commits, "
    "then run the command again"
)


class LoadedTable:
    """A table that is read once. Raises as `standing`."""

    def __init__(self, url: str, at: int | str | None = None) -> None:
        self.url = url
        self.kind, location = split_url(url)
        with require_extra(f"reading {url}", self.kind):
            if self.kind == "delta":
                log = DeltaLog(location)
                self.history = log.history(at)
                self._table = log.table
            else:
                self._table = _load_iceberg(location)
                self.history = read_iceberg_history(self._table, at)

    def check_column(self, name: str) -> None:
        """Raise `Rejected` if the table has no such column; ``window.end`` is in a struct."""
        with require_extra(f"reading {self.url}", self.kind):
            from pyarrow import types as arrow_types

            fields: Any = self._read_schema()
            for part in name.split("."):
                types = {column.name: column.type for column in fields}
                if part not in types:
                    column_names = ", ".join(types)
                    raise Rejected(
                        f"time_of={name!r} is not a column of {self.url}: use one of {column_names}"
                    )
                is_struct = arrow_types.is_struct(types[part])
                fields = types[part] if is_struct else ()

    def append_nothing(self, metadata: Mapping[str, str]) -> None:
        """Commit without rows. Raises `Conflict` if another commit came first."""
        with require_extra(f"committing to {self.url}", self.kind):
            if self.kind == "delta":
                self._append_nothing_to_delta(metadata)
            else:
                self._append_nothing_to_iceberg(metadata)

    def _append_nothing_to_delta(self, metadata: Mapping[str, str]) -> None:
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError

        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(dict(metadata))})
        schema = self._table.schema()
        try:
            self._table.create_write_transaction([], "append", schema, commit_properties=properties)
        except CommitFailedError as error:
            raise Conflict(CHANGED_MEANWHILE.format(self.url)) from error

    def _append_nothing_to_iceberg(self, metadata: Mapping[str, str]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        try:
            rows = self._read_schema().empty_table()
            self._table.append(rows, snapshot_properties=dict(metadata))
        except CommitFailedException as error:
            raise Conflict(CHANGED_MEANWHILE.format(self.url)) from error

    def _read_schema(self) -> Any:  # noqa: ANN401 - pyarrow's
        schema = self._table.schema()
        if self.kind == "delta":
            import pyarrow as pa

            return pa.schema(schema)
        return schema.as_arrow()


def open_history(url: str, at: int | str | None = None) -> TableHistory:
    return LoadedTable(url, at).history


def split_url(url: str) -> tuple[str, str]:
    """Return kind and location, or raise `Unreadable`."""
    kind, _, location = url.partition(":")
    if kind not in TABLE_KINDS or not location or (kind == "iceberg" and "." not in location):
        raise Unreadable(f"{url!r} is not the URL of a table: write {URL_FORMS}")
    return kind, location


def make_absolute(url: str) -> str:
    """Return a URL that names the same table in any working directory.

    >>> make_absolute("delta:s3://lake/orders"), make_absolute("delta:/data/orders/")
    ('delta:s3://lake/orders', 'delta:/data/orders')
    """
    kind, location = split_url(url)
    if kind != "delta" or "://" in location:
        return url
    return f"{kind}:{Path(location).absolute()}"


def _load_iceberg(location: str) -> Any:  # noqa: ANN401 - pyiceberg's
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    catalog, _, name = location.partition(".")
    try:
        return load_catalog(catalog).load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise Rejected(f"catalog {catalog!r} has no table {name!r}") from error
    except Exception as error:
        raise Unreachable(f"catalog {catalog!r} of Iceberg does not answer: {error}") from error


def read_iceberg_history(table: Any, at: int | str | None = None) -> TableHistory:  # noqa: ANN401 - pyiceberg's
    ref_names = {ref.snapshot_id: name for name, ref in table.metadata.refs.items()}
    ref_names[table.metadata.current_snapshot_id] = MAIN_BRANCH
    rows = []
    schema_ids = {}
    for snapshot in table.snapshots():
        operation = "unknown"
        summary: Mapping[str, str] = {}
        if snapshot.summary:
            operation = snapshot.summary.operation.value
            summary = snapshot.summary.additional_properties
        row = {
            "snapshot_id": snapshot.snapshot_id,
            "parent_id": snapshot.parent_snapshot_id,
            "operation": operation,
            "summary": summary,
            "ref": ref_names.get(snapshot.snapshot_id),
        }
        rows.append(row)
        schema_ids[snapshot.snapshot_id] = snapshot.schema_id
    asked_ref = table.metadata.refs.get(at)
    if asked_ref is not None:
        at = asked_ref.snapshot_id
    history = history_of(rows, table.properties, at=at, table=str(table.metadata.table_uuid))
    times_made_current = {}
    for log_entry in table.metadata.snapshot_log:
        times_made_current[log_entry.snapshot_id] = log_entry.timestamp_ms
    commits = []
    for commit in history.commits:
        valid_commit = _drop_stale_claims(commit, table, schema_ids.get(commit.id))
        current_since = times_made_current.get(commit.id, 0)
        commits.append(replace(valid_commit, current_since=current_since))
    return replace(history, commits=commits)


def _drop_stale_claims(commit: Commit, table: Any, schema_id: int | None) -> Commit:  # noqa: ANN401 - pyiceberg's
    """Return the commit, in which claims about columns of former schemas have ended."""
    claims = {}
    for name, claim in commit.claims.items():
        former_field = _find_field(table, schema_id, claim.time_of)
        if former_field == _find_field(table, None, claim.time_of):
            claims[name] = claim
        else:
            why = f"its column {claim.time_of!r} was renamed or dropped"
            claims[name] = replace(claim, ended=why)
    return replace(commit, claims=claims)


def _find_field(table: Any, schema_id: int | None, column: str) -> int | None:  # noqa: ANN401 - pyiceberg's
    schema = table.schemas().get(schema_id, table.schema())
    try:
        return int(schema.find_field(column).field_id)
    except ValueError:
        return None
