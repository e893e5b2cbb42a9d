"""Rows of a topic in Parquet files, in the layout of Kafka Connect's sinks."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def name_file(root: Path, stream: str, segment: int, start: int) -> Path:
    """Return the path of the file whose first row has this offset."""
    name = f"{stream}+{segment}+{start:010}.parquet"
    return root / stream / f"partition={segment}" / name


def write_file(path: Path, rows: pa.Table, **options: Any) -> None:  # noqa: ANN401
    """Write a file that appears at once, with options of the Parquet writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unseen = path.with_name(f".{path.name}.new")
    pq.write_table(rows, unseen, **options)
    unseen.rename(path)


def append_rows(root: Path, stream: str, segment: int, rows: list[dict[str, Any]]) -> None:
    """Append rows as one file."""
    directory = name_file(root, stream, segment, 0).parent
    start = sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
    write_file(name_file(root, stream, segment, start), pa.Table.from_pylist(rows))
