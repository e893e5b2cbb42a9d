"""The position of Spark's built-in file stream in a file log."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from noted_time.filelog import start_of
from noted_time.filelog.layout import segment_of


def find_position(log: Path, stream: str, offset: dict[str, Any]) -> dict[int, int]:
    """Return the offset of each segment up to the first missing file, by the source's own log."""
    files, position = set[Path](), dict[int, int]()
    for batch in log.iterdir():
        if batch.name.isdigit() and int(batch.name) <= offset["logOffset"]:
            urls = (json.loads(line)["path"] for line in batch.read_text().splitlines()[1:])
            files.update(Path(unquote(urlsplit(url).path)) for url in urls)
    for path in sorted(files):
        segment = segment_of(path.parent.name)
        assert segment is not None
        start = start_of(path.name, stream, segment)
        if start is not None and start == position.get(segment, 0):
            position[segment] = start + pq.read_metadata(path).num_rows
    return position
