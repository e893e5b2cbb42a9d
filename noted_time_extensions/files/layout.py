"""Names the files of a file log, in the layout of the Kafka Connect S3 and HDFS sinks.

``<root>/<stream>/partition=<p>/<stream>+<p>+<start offset, 10 digits>.parquet``

Each file is one append, an exclusive create under the next offset, with its row count in the
footer.

Names with other paddings, a codec (``.snappy.parquet``, the S3 sink) or the last offset, too (the
HDFS sink) are read, but not appended to. Separate files with keys and headers
(``.keys.snappy.parquet``, ``.headers.avro``) contain no rows. `judge_name` decides about all names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from shlex import quote
from typing import Literal, TypeVar

from noted_time import Rejected, UnreadableRows
from noted_time.extending import LABEL_LENGTH, MAX_INT64, LogPath

FILE_SUFFIX = ".parquet"
LEAST_MARGIN = 1000
"""Files with more rows need wider offsets."""

NameKind = Literal["rows", "passed over", "foreign", "being written"]

REFUSED_KINDS: dict[NameKind, str] = {
    "foreign": "may have rows, and is not a file of this log, which are "
    "partition=<n>/<stream>+<n>+<offset>.parquet (Connect: partitioner.class=DefaultPartitioner, "
    "format.class=ParquetFormat): remove it",
    "being written": "is being written, or was left by a writer that failed: wait, or remove it",
}
"""The kinds of names that may have rows which cannot be read, or not yet."""

_FILE_NAME = re.compile(
    r"(.+?)\+(0|[1-9]\d{0,18})\+(\d{1,20})(\+\d{1,20})?(?:\.(?!keys\.|headers\.)[\w-]+)?\.parquet",
    re.ASCII,
)
_KEYS_OR_HEADERS = re.compile(r".+\+\d+\+\d+(?:\+\d+)?\.(?:keys|headers)(?:\.[\w-]+)+", re.ASCII)
_WITHOUT_ROWS = re.compile(r"[._].*|.+(?:\.crc|\.md5|\.sha\d+|_\$folder\$)", re.DOTALL)
_DATA_NAME = re.compile(
    r".+\.(?:avro|bin|csv|jsonl?|orc|parquet|txt)(?:\.[\w-]+)?|.+=.+", re.DOTALL | re.IGNORECASE
)
_CODEC_NAME = re.compile(
    r".+\.(?:br|bz2|deflate|gz|gzip|lz[4o]|snappy|xz|zip|zstd?)", re.IGNORECASE
)
_SEGMENT_DIRECTORY = re.compile(r"partition=(0|[1-9]\d{0,18})", re.ASCII)


APPEND_KEY = b"noted_time.append"
"""The key of our writer's files in their metadata. Its value differs for each append."""


class UnreadableFile(Rejected):
    """A file cannot be read as a part of its segment."""

    def __init__(self, path: LogPath, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def explain_damage(error: Exception) -> str:
    """Return the reason of an `UnreadableFile` for an error of pyarrow."""
    if "file size is 0 bytes" in str(error):
        return "is empty"
    return f"not a whole Parquet file: {error}"


class ForeignFile(UnreadableFile, UnreadableRows):
    """A name in a log may be a file with rows that cannot be read, or not yet.

    `pattern` matches the first part of the name below `directory`, in printable characters.
    """

    def __init__(self, directory: LogPath, name: str, kind: NameKind) -> None:
        pattern = _build_pattern(name)
        option = f"--ignore {quote(pattern)} (in Python, ignore=[{pattern!r}])"
        self.path = directory / name
        self.reason = f"{REFUSED_KINDS[kind]}, or leave it out: {option}"
        self.is_being_written = kind != "foreign"
        segment = segment_of(directory.name) or 0
        UnreadableRows.__init__(self, f"{self.path}: {self.reason}", segment, pattern)


def _build_pattern(name: str) -> str:
    """Return a pattern of at most `LABEL_LENGTH` for the first part of a name."""
    pattern = ""
    for character in escape(name.partition("/")[0]):
        pattern += character if character.isprintable() else "?"
    if len(pattern) <= LABEL_LENGTH:
        return pattern
    return f"{pattern[: LABEL_LENGTH - 1]}*"


AnyPath = TypeVar("AnyPath", Path, LogPath)


def segment_directory(root: AnyPath, stream: str, segment: int) -> AnyPath:
    return root / stream / f"partition={segment}"


def file_name(stream: str, segment: int, start: int) -> str:
    return f"{stream}+{segment}+{start:010d}{FILE_SUFFIX}"


def start_of(name: str, stream: str, segment: int | None) -> int | None:
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


def judge_name(
    name: str, stream: str, segment: int | None, ignored_patterns: Sequence[str] = ()
) -> NameKind:
    """Return the kind of a name in a segment's directory, or with `None` in the stream's.

    A name in a deeper directory has slashes. Foreign names that `ignored_patterns` match, either as
    a whole or in a part between slashes, are passed over.

    >>> suffixes = ".parquet", ".parquet.tmp", ".json", ".parquet.gz", ".parquet.crc"
    >>> [judge_name(f"a+0+7{suffix}", "a", 0) for suffix in suffixes]
    ['rows', 'being written', 'foreign', 'foreign', 'passed over']
    >>> [judge_name(name, "a", 0) for name in ("hour=7/a+0+7.parquet", "_tmp/a.csv", "README.md")]
    ['foreign', 'passed over', 'passed over']
    >>> judge_name("hour=7/a+0+7.parquet", "a", 0, ["hour=*"])
    'passed over'
    """
    parts = name.split("/")
    folders = parts[:-1]
    last = parts[-1]
    is_below_hidden = any(is_hidden(folder) for folder in folders)
    if is_below_hidden or is_beside_rows(last) or _WITHOUT_ROWS.fullmatch(last):
        return "passed over"
    is_file = segment is not None and not folders
    if is_file and start_of(last, stream, segment) is not None:
        return "rows"
    if any(_matches(name, pattern) for pattern in ignored_patterns):
        return "passed over"
    stem = "" if _CODEC_NAME.fullmatch(last) else last.rpartition(".")[0]
    if is_file and start_of(stem, stream, segment) is not None:
        return "being written"
    is_row_file = re.match(rf"{re.escape(stream)}\+\d+\+\d", last)
    if is_row_file or _DATA_NAME.fullmatch(last):
        return "foreign"
    return "passed over"


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(part, pattern) for part in (name, *name.split("/")))


def sort_by_offset(
    names: Sequence[str], stream: str, segment: int, ignored_patterns: Sequence[str] = ()
) -> bool:
    """Return whether a new file's name sorts behind these sorted names.

    All offsets must have one width, and the next one, too. No name may be foreign, because its
    removal would not be seen:

    >>> sort_by_offset(["a+0+0000000000.parquet", "a+0+9800000000.parquet"], "a", 0)
    True
    >>> sort_by_offset(["a+0+9990000000.parquet"], "a", 0)
    False
    """
    widths: set[int] = set()
    start_digits = ""
    for name in names:
        kind = judge_name(name, stream, segment, ignored_patterns)
        if kind in REFUSED_KINDS:
            return False
        if kind == "rows":
            match = _FILE_NAME.fullmatch(name)
            if match is None or match[4] is not None:  # with the last offset, too
                return False
            start_digits = match[3]
            widths.add(len(start_digits))
    if len(widths) != 1:
        return False
    limit: int = 10 ** widths.pop()
    return int(start_digits) < limit - max(limit // 100, LEAST_MARGIN)


def is_hidden(name: str) -> bool:
    """Return whether readers skip a file, as in Spark."""
    return name.startswith((".", "_"))


def is_beside_rows(name: str) -> bool:
    """Return whether a file has the keys or headers of the rows in another file.

    >>> is_beside_rows("x.keys+3+0000001200.parquet"), is_beside_rows("x+3+0000001200.keys.parquet")
    (False, True)
    """
    return _KEYS_OR_HEADERS.fullmatch(name) is not None


def segment_of(directory: str) -> int | None:
    match = _SEGMENT_DIRECTORY.fullmatch(directory)
    return int(match[1]) if match else None
