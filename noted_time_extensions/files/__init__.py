"""The file log: its writers, its observers, and Spark's sources and sink.

Names are imported on first use, as each start of `noted-time` imports this package, and Spark's
Python processes may lack packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extending import import_lazily

if TYPE_CHECKING:
    from noted_time_extensions.files.batches import Batch as Batch
    from noted_time_extensions.files.layout import ForeignFile as ForeignFile
    from noted_time_extensions.files.layout import UnreadableFile as UnreadableFile
    from noted_time_extensions.files.log_ends import LogEnds as LogEnds
    from noted_time_extensions.files.log_ends import LogTimes as LogTimes
    from noted_time_extensions.files.log_writer import SegmentLogWriter as SegmentLogWriter
    from noted_time_extensions.files.spark.late_rows import split_late as split_late
    from noted_time_extensions.files.spark.options import Batches as Batches
    from noted_time_extensions.files.spark.options import Columns as Columns
    from noted_time_extensions.files.spark.options import ReadRange as ReadRange
    from noted_time_extensions.files.spark.read_log import read_noted_log as read_noted_log
    from noted_time_extensions.files.spark.read_window import read_complete as read_complete
    from noted_time_extensions.files.spark.sink import NotedLogSink as NotedLogSink

LAZY_IMPORTS = {
    "Batch": ("batches", ""),
    "Batches": ("spark.options", "spark"),
    "Columns": ("spark.options", "spark"),
    "ForeignFile": ("layout", ""),
    "LogEnds": ("log_ends", "files"),
    "LogTimes": ("log_ends", "files"),
    "NotedLogSink": ("spark.sink", "spark"),
    "ReadRange": ("spark.options", "spark"),
    "SegmentLogWriter": ("log_writer", "files"),
    "UnreadableFile": ("layout", ""),
    "read_complete": ("spark.read_window", "spark"),
    "read_noted_log": ("spark.read_log", "spark"),
    "split_late": ("spark.late_rows", "spark"),
}

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    if LAZY_IMPORTS.get(name, ("", ""))[1] == "spark":
        _require_release(name)
    names = {
        name: (f"{__name__}.{module}", extra) for name, (module, extra) in LAZY_IMPORTS.items()
    }
    return import_lazily(__name__, names, name)


def _require_release(name: str) -> None:
    from noted_time_extensions.files.spark.releases import require_release

    require_release(name)
