"""The position of Spark's built-in file stream in the archive of a topic."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq


def find_position(log: Path, offset: dict[str, Any]) -> dict[int, int]:
    """Return the offset of each segment up to the first missing file, by the source's own log."""
    files = set[Path]()
    position = dict[int, int]()
    for batch in log.iterdir():
        if batch.name.isdigit() and int(batch.name) <= offset["logOffset"]:
            urls = (json.loads(line)["path"] for line in batch.read_text().splitlines()[1:])
            files.update(Path(unquote(urlsplit(url).path)) for url in urls)
    for path in sorted(files):
        segment = int(path.parent.name.removeprefix("partition="))
        start = int(path.stem.rpartition("+")[2])
        if start == position.get(segment, 0):
            position[segment] = start + pq.read_metadata(path).num_rows
    return position
