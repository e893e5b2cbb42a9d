"""Names the files of a file log, in the layout of the Kafka Connect S3 and HDFS sinks.

``<root>/<stream>/partition=<p>/<stream>+<p>+<start offset, 10 digits>.parquet``

Each file is one append, an exclusive create under the next offset, with its row count in the
footer.

Names with other paddings, a codec (``.snappy.parquet``, the S3 sink) or the last offset, too (the
HDFS sink) are read, but not appended to. Separate files with keys and headers
(``.keys.snappy.parquet``, ``.headers.avro``) contain no rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from noted_time.stores import LogPath
from noted_time.values import MAX_INT64, Rejected

FILE_SUFFIX = ".parquet"
LEAST_MARGIN = 1000
"""Files with more rows need wider offsets."""

_FILE_NAME = re.compile(
    r"(.+?)\+(0|[1-9]\d{0,18})\+(\d{1,20})(\+\d{1,20})?(?:\.[\w-]+)?\.parquet", re.ASCII
)
_KEYS_OR_HEADERS = re.compile(r".+\+\d+\+\d+(?:\+\d+)?\.(?:keys|headers)(?:\.[\w-]+)+", re.ASCII)
_SEGMENT_DIRECTORY = re.compile(r"partition=(0|[1-9]\d{0,18})", re.ASCII)


class UnreadableFile(Rejected):
    """A file cannot be read as a part of its segment."""

    def __init__(self, path: LogPath, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@overload
def segment_directory(root: Path, stream: str, segment: int) -> Path: ...


@overload
def segment_directory(root: LogPath, stream: str, segment: int) -> LogPath: ...


def segment_directory(root: LogPath, stream: str, segment: int) -> LogPath:
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


def sort_by_offset(names: Sequence[str], stream: str, segment: int) -> bool:
    """Return whether a new file's name sorts behind these sorted names.

    All offsets must have one width, and the next one, too:

    >>> sort_by_offset(["a+0+0000000000.parquet", "a+0+9800000000.parquet"], "a", 0)
    True
    >>> sort_by_offset(["a+0+9990000000.parquet"], "a", 0)
    False
    """
    shown = [name for name in names if name.endswith(FILE_SUFFIX) and has_rows(name)]
    matches = [match for name in shown if (match := _FILE_NAME.fullmatch(name)) is not None]
    own = [m for m in matches if (m[1], m[2]) == (stream, str(segment)) and m[4] is None]
    widths = {len(match[3]) for match in own}
    if not own or len(own) < len(shown) or len(widths) > 1:
        return False
    limit: int = 10 ** widths.pop()
    return int(own[-1][3]) < limit - max(limit // 100, LEAST_MARGIN)


def parse_start(path: LogPath, stream: str, segment: int) -> int:
    start = start_of(path.name, stream, segment)
    if start is None:
        raise UnreadableFile(path, f"not a file of stream {stream!r}, segment {segment}")
    return start


def is_hidden(name: str) -> bool:
    """Return whether readers skip a file, as in Spark."""
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
