"""Finds tables whose files must not be judged one by one.

A folder of a table also has the files of rows that were replaced, deleted or never committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from noted_time.extending import Rejected

LEVELS_ABOVE = 3
"""A table is sought so many levels above the files of a pattern."""

WILDCARD_CHARACTERS = frozenset("*?[")


def refuse_tables(pattern: str, files: Iterable[Path]) -> None:
    """Raise `Rejected` if a Parquet file lies in the folder of a table."""
    base = _find_base(pattern)
    folders: set[Path] = set()
    for file in files:
        if ".parquet" in file.name:
            folders.update(_list_above(file.absolute().parent, base))
    for folder in sorted(folders):
        for name, has_marker, remedy in _TABLE_KINDS:
            if has_marker(folder):
                raise Rejected(
                    f"{str(folder)!r} is a table of {name}, whose files also have rows that were "
                    f"replaced or deleted: write its rows to a file, and judge this one: "
                    f"{remedy.format(folder)}"
                )


def _find_base(pattern: str) -> Path:
    """Return the folder above the first part with a wildcard.

    >>> _find_base("/data/*/a.parquet").as_posix(), _find_base("/data/a.parquet").as_posix()
    ('/data', '/data')
    """
    parts = Path(pattern).absolute().parent.parts
    plain_parts = takewhile(lambda part: not WILDCARD_CHARACTERS & set(part), parts)
    return Path(*plain_parts)


def _list_above(folder: Path, base: Path) -> Iterator[Path]:
    """Yield a folder, those up to the base of the pattern, and three more."""
    folders_above = [folder, *folder.parents]
    levels = folders_above.index(base) if base in folders_above else 0
    yield from folders_above[: levels + LEVELS_ABOVE + 1]


def _is_delta(folder: Path) -> bool:
    return _has_folder(folder / "_delta_log")


def _is_iceberg(folder: Path) -> bool:
    with suppress(OSError):  # it may not be listed
        return any((folder / "metadata").glob("*.metadata.json"))
    return False


def _is_hudi(folder: Path) -> bool:
    return _has_folder(folder / ".hoodie")


def _has_folder(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir()
    return False


ICEBERG_REMEDY = (
    "in DuckDB, COPY (FROM iceberg_scan('{}/metadata/….metadata.json')) TO 'rows.parquet', with "
    "the file that the catalog names"
)

_TABLE_KINDS: tuple[tuple[str, Callable[[Path], bool], str], ...] = (
    ("Delta Lake", _is_delta, "in DuckDB, COPY (FROM delta_scan('{}')) TO 'rows.parquet'"),
    ("Iceberg", _is_iceberg, ICEBERG_REMEDY),
    ("Hudi", _is_hudi, "in Spark, spark.read.format('hudi').load('{}').write.parquet('rows')"),
)
"""The kinds of tables, how their folders are known, and how their rows are read."""
