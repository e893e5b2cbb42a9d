"""Reads the log of a Delta table from its files.

Delta's own history skips commits without a description and renumbers the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


class DeltaLog:
    """The log of one table; only new commits and commits that a restore replaced are read again."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._known: dict[int, tuple[object, Mapping[str, Any]]] = {}
        self.table: Any = None
        """The table of the last `history`."""

    def history(self, at: int | str | None = None) -> TableHistory:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            table = self.table = DeltaTable(self._location)
            self._look()
        except TableNotFoundError as error:
            raise Rejected(f"there is no Delta table at {self._location!r}") from error
        except (DeltaError, OSError) as error:
            name = f"the Delta table at {self._location!r}"
            if CATALOG_MANAGED in str(error):
                raise Rejected(CATALOG_NOT_SUPPORTED.format(name)) from error
            raise Unreachable(f"{name} cannot be read: {error}") from error
        rows = [row for _, row in self._known.values()]
        if table.version() > max(self._known, default=-1):
            rows.append({"version": table.version(), "operation": CATALOG_COMMITS})
        metadata = table.metadata()
        return history_of(rows, metadata.configuration, at=at, table=str(metadata.id))

    def exists(self) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self._location)

    def _look(self) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        files = fs.PyFileSystem(DeltaStorageHandler(self._location))
        infos = {}
        for info in files.get_file_info(fs.FileSelector(LOG_DIRECTORY)):
            if commit := _COMMIT_FILE.fullmatch(info.base_name):
                infos[int(commit[1])] = info
        kept_commits = {
            version: commit for version, commit in self._known.items() if version in infos
        }
        self._known = {
            version: commit
            for version, commit in kept_commits.items()
            if commit[0] == (infos[version].size, infos[version].mtime_ns)
        }

        def read_rows(versions: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
            for version in versions:
                with files.open_input_stream(infos[version].path) as stream:
                    yield version, {**_parse_commit(stream.read()), "version": version}

        new_versions = sorted(infos.keys() - self._known.keys())
        parts = [
            new_versions[start::FILES_AT_ONCE]
            for start in range(min(FILES_AT_ONCE, len(new_versions)))
        ]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            for rows in pool.map(lambda part: [*read_rows(part)], parts):
                for version, row in rows:
                    self._known[version] = ((infos[version].size, infos[version].mtime_ns), row)


def _parse_commit(text: bytes) -> Mapping[str, Any]:
    for line in text.splitlines():
        if b'"commitInfo"' in line[:64]:
            try:
                info = json.loads(line)["commitInfo"]
                return {**info, "operation": info.get("operation", "")}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                break
    return {"operation": ""}
