"""Which archives of Kafka topics are file logs, and how to mend what is not.

The sinks know many layouts; the file log is one of them. The others hold rows too, so they are
refused by name: if they were skipped, the log would look empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from noted_time.filelog.layout import SUFFIX, is_hidden, segment_of
from noted_time.values import Rejected

_ROWS = re.compile(r".+=.+|.+\.(?:avro|bin|csv|jsonl?|orc|txt)(?:\.[a-z0-9]+)?", re.ASCII)
"""Directories and files whose rows are not in Parquet, or not by segment."""


def segments_in(directory: Path, names: Iterable[str]) -> set[int]:
    """Return the segments among the entries of a stream's directory.

    Raises `Rejected` if rows are stored there by something other than their segment.

    >>> from pathlib import Path
    >>> sorted(segments_in(Path("flights"), ["partition=1", "partition=0", "_SUCCESS"]))
    [0, 1]
    >>> segments_in(Path("flights"), ["year=2026"])
    Traceback (most recent call last):
        ...
    noted_time.Rejected: flights holds year=2026, where a log has partition=<n>: ...
    """
    shown = {name: segment_of(name) for name in names if not is_hidden(name)}
    segments = {segment for segment in shown.values() if segment is not None}
    others = [name for name, segment in shown.items() if segment is None]
    named = [name for name in others if _ROWS.fullmatch(name) or not segments]
    if named:
        raise Rejected(
            f"{directory} holds {min(named)}, where a log has partition=<n>: only archives of the "
            "DefaultPartitioner can be read (partitioner.class), not those by time or by a field"
        )
    return segments


def check_segment(directory: Path, names: Iterable[str]) -> None:
    """Raise `Rejected` if the directory of a segment has rows, but none in Parquet."""
    shown = [name for name in names if not is_hidden(name)]
    rows = [name for name in shown if _ROWS.fullmatch(name)]
    if rows and not any(name.endswith(SUFFIX) for name in shown):
        raise Rejected(
            f"{directory} holds {min(rows)}, and no Parquet file: only archives in Parquet can be "
            "read (format.class=io.confluent.connect.s3.format.parquet.ParquetFormat)"
        )


def check_root(root: Path, stream: str) -> None:
    """Raise `Rejected` if `root`, which lacks the stream, is one level off the right root."""
    inside = [name for name in _names_in(root) if not is_hidden(name)]
    for name in inside:
        if segment_of(name) is not None:
            raise Rejected(
                f"{root} holds {name}, as a stream's log does: the root is {root.parent}"
            )
    for name in inside:
        if any(segment_of(each) is not None for each in _names_in(root / name / stream)):
            raise Rejected(
                f"{root} has no log of stream {stream!r}, which is below {name}: the root is "
                f"{root / name}"
            )


def _names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()] if directory.is_dir() else []
