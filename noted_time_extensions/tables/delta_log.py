"""Reads the log of a Delta table from its files.

Delta's own history skips commits without a description and renumbers the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from noted_time.extending import Rejected, Unreachable
from noted_time_extensions.tables.history_rows import history_of
from noted_time_extensions.tables.table_history import TableHistory

LOG_DIRECTORY = "_delta_log"
FILES_AT_ONCE = 16
CATALOG_COMMITS = "commits that a catalog manages"
CATALOG_MANAGED = "catalog-managed"

CATALOG_NOT_SUPPORTED = (
    "the commits of {} are kept by its catalog: reading or writing claims there is not possible yet"
)

_COMMIT_FILE = re.compile(r"(\d{20})\.json")


class _CommitRow(NamedTuple):
    """A commit as a row of the history, and the size and time of its file when it was read."""

    file_state: tuple[int, int]
    row: Mapping[str, Any]


class DeltaLog:
    """The log of one table; only new commits and commits that a restore replaced are read again."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._rows: dict[int, _CommitRow] = {}
        self.table: Any = None
        """The table of the last `history`."""

    def history(self, at: int | str | None = None) -> TableHistory:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            table = self.table = DeltaTable(self._location)
            self._update_rows()
        except TableNotFoundError as error:
            raise Rejected(f"there is no Delta table at {self._location!r}") from error
        except (DeltaError, OSError) as error:
            name = f"the Delta table at {self._location!r}"
            if CATALOG_MANAGED in str(error):
                raise Rejected(CATALOG_NOT_SUPPORTED.format(name)) from error
            raise Unreachable(f"{name} cannot be read: {error}") from error
        rows = [commit_row.row for commit_row in self._rows.values()]
        if table.version() > max(self._rows, default=-1):
            rows.append({"version": table.version(), "operation": CATALOG_COMMITS})
        metadata = table.metadata()
        return history_of(rows, metadata.configuration, at=at, table=str(metadata.id))

    def exists(self) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self._location)

    def _update_rows(self) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        files = fs.PyFileSystem(DeltaStorageHandler(self._location))
        paths = {}
        file_states = {}
        for info in files.get_file_info(fs.FileSelector(LOG_DIRECTORY)):
            if match := _COMMIT_FILE.fullmatch(info.base_name):
                version = int(match[1])
                paths[version] = info.path
                file_states[version] = (info.size, info.mtime_ns)
        self._rows = {
            version: _CommitRow(file_state, row)
            for version, (file_state, row) in self._rows.items()
            if file_state == file_states.get(version)
        }

        def read_rows(versions: Sequence[int]) -> list[Mapping[str, Any]]:
            rows: list[Mapping[str, Any]] = []
            for version in versions:
                with files.open_input_stream(paths[version]) as stream:
                    rows.append({**_parse_commit(stream.read()), "version": version})
            return rows

        new_versions = sorted(paths.keys() - self._rows.keys())
        part_count = min(FILES_AT_ONCE, len(new_versions))
        parts = [new_versions[start::FILES_AT_ONCE] for start in range(part_count)]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            for rows in pool.map(read_rows, parts):
                for row in rows:
                    version = row["version"]
                    self._rows[version] = _CommitRow(file_states[version], row)


def _parse_commit(text: bytes) -> Mapping[str, Any]:
    for line in text.splitlines():
        if b'"commitInfo"' in line[:64]:
            try:
                info = json.loads(line)["commitInfo"]
                return {**info, "operation": info.get("operation", "")}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                break
    return {"operation": ""}
