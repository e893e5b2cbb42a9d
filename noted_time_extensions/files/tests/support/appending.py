"""A process that appends to a shared segment, and the content of segments."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noted_time_extensions.files import SegmentLogWriter
from noted_time_extensions.files.layout import segment_directory, start_of


def append(root: Path, stream: str, segment: int, *times: int) -> None:
    """Append rows with these times."""
    log = SegmentLogWriter(root, stream, segments=[segment], event_time="time")
    log.append([{"time": time} for time in times])


def append_many(root: Path, name: str, appends: int) -> None:
    """Append 1 to 5 rows at a time, each with the writer's name and a number."""
    writer = SegmentLogWriter(root, "flights", event_time="time")
    number = 0
    for append in range(appends):
        rows = [{"time": number + i, "writer": name} for i in range(1 + append % 5)]
        number += len(rows)
        writer.append(rows)


def files(root: Path, segment: int = 0) -> list[tuple[int, int, Path]]:
    """Return start, end and path of each visible file, in order."""
    files_found = []
    for path in segment_directory(root, "flights", segment).glob("*"):
        start = start_of(path.name, "flights", segment)
        if start is not None:
            files_found.append((start, start + pq.read_metadata(path).num_rows, path))
    return sorted(files_found)


def rows(root: Path, segment: int = 0) -> list[dict[str, Any]]:
    """Return all rows of a segment in the order of their offsets."""
    tables = [pq.read_table(path, partitioning=None) for _, _, path in files(root, segment)]
    rows_found: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist() if tables else []
    return rows_found
