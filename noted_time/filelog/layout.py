"""Names the files of a file log, in the layout of the Kafka Connect S3 and HDFS sinks.

``<root>/<stream>/partition=<p>/<stream>+<p>+<start offset, 10 digits>.parquet``

Each file is one append, an exclusive create under the next offset, with its row count in the
footer.

The sinks' other names are read, but not appended to:

- other paddings
- a codec before the suffix (``.snappy.parquet``, the S3 sink)
- the last offset after the first one (the HDFS sink)

Separate files with keys and headers (``.keys.snappy.parquet``, ``.headers.avro``) contain no rows.
"""

from __future__ import annotations

import re
from pathlib import Path

from noted_time.values import MAX_INT64, Rejected

FILE_SUFFIX = ".parquet"
_FILE_NAME = re.compile(
    r"(.+?)\+(0|[1-9]\d{0,18})\+(\d{1,20})(?:\+\d{1,20})?(?:\.[\w-]+)?\.parquet", re.ASCII
)
_KEYS_OR_HEADERS = re.compile(r".+\+\d+\+\d+(?:\+\d+)?\.(?:keys|headers)(?:\.[\w-]+)+", re.ASCII)
_SEGMENT_DIRECTORY = re.compile(r"partition=(0|[1-9]\d{0,18})", re.ASCII)


class UnreadableFile(Rejected):
    """The file at `path` cannot be read as a part of its segment."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def segment_directory(root: Path, stream: str, segment: int) -> Path:
    return root / stream / f"partition={segment}"


def file_name(stream: str, segment: int, start: int) -> str:
    return f"{stream}+{segment}+{start:010d}{FILE_SUFFIX}"


def start_of(name: str, stream: str, segment: int) -> int | None:
    """Return the start offset in a file's name, or `None` for a name of another segment.

    >>> start_of("flights+3+0000001200.parquet", "flights", 3)
    1200
    >>> start_of("flights+3+0000001200+0000001299.snappy.parquet", "flights", 3)
    1200
    >>> start_of("_SUCCESS", "flights", 3)
    """
    match = _FILE_NAME.fullmatch(name)
    if match is None or (match[1], match[2]) != (stream, str(segment)):
        return None
    start = int(match[3])
    return start if start <= MAX_INT64 else None


def parse_start(path: Path, stream: str, segment: int) -> int:
    start = start_of(path.name, stream, segment)
    if start is None:
        raise UnreadableFile(path, f"not a file of stream {stream!r}, segment {segment}")
    return start


def is_hidden(name: str) -> bool:
    """Return whether readers skip a file, as Spark and Hadoop do."""
    return name.startswith((".", "_"))


def has_rows(name: str) -> bool:
    """Return whether a file may contain rows, unlike files with keys and headers.

    >>> has_rows("x.keys+3+0000001200.parquet"), has_rows("x+3+0000001200.keys.parquet")
    (True, False)
    """
    return not is_hidden(name) and _KEYS_OR_HEADERS.fullmatch(name) is None


def segment_of(directory: str) -> int | None:
    match = _SEGMENT_DIRECTORY.fullmatch(directory)
    return int(match[1]) if match else None
