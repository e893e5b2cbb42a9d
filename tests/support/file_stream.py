"""The position of Spark's built-in file stream in a file log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from noted_time.filelog import start_of
from noted_time.filelog.layout import segment_of


@dataclass(frozen=True)
class FileStream:
    """Finds the files of a batch in the source's log in the query's checkpoint.

    `source` is the index of the file stream among the query's sources.
    """

    checkpoint: str
    stream: str
    source: int = 1

    def __call__(self, offset: dict[str, Any]) -> dict[int, int]:
        """Return the offset of each segment up to the first missing file."""
        position: dict[int, int] = {}
        for segment, start, rows in sorted(set(self._files(offset["logOffset"]))):
            if start == position.get(segment, 0):
                position[segment] = start + rows
        return position

    def _files(self, last: int) -> Iterator[tuple[int, int, int]]:
        log = Path(self.checkpoint, "sources", str(self.source))
        for batch in log.iterdir():
            if batch.name.isdigit() and int(batch.name) <= last:
                for line in batch.read_text().splitlines()[1:]:
                    path = Path(unquote(urlsplit(json.loads(line)["path"]).path))
                    segment = segment_of(path.parent.name)
                    assert segment is not None
                    start = start_of(path.name, self.stream, segment)
                    assert start is not None
                    yield segment, start, pq.read_metadata(path).num_rows
