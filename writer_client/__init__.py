"""The writers' side: note time, and append to the file log.

`WriterClient` needs no Parquet; `SegmentLogWriter`, `LogEnds` and `LogTimes` import pyarrow when
they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from noted_time.extras import needs_extra
from writer_client.async_client import AsyncWriterClient
from writer_client.batches import Batch
from writer_client.client import WriterClient
from writer_client.observing import EventTimeNoter, IngestionNoter
from writer_client.outcome import Exclusion, Flushed

if TYPE_CHECKING:
    from writer_client.log_ends import LogEnds, LogTimes
    from writer_client.segment_log import SegmentLogWriter

__all__ = [
    "AsyncWriterClient",
    "Batch",
    "EventTimeNoter",
    "Exclusion",
    "Flushed",
    "IngestionNoter",
    "LogEnds",
    "LogTimes",
    "SegmentLogWriter",
    "WriterClient",
]

WITH_PARQUET = {
    "LogEnds": "writer_client.log_ends",
    "LogTimes": "writer_client.log_ends",
    "SegmentLogWriter": "writer_client.segment_log",
}
"""The names that need pyarrow, with their modules."""


def __getattr__(name: str) -> object:
    if name in WITH_PARQUET:
        try:
            return getattr(import_module(WITH_PARQUET[name]), name)
        except ModuleNotFoundError as error:
            raise needs_extra(f"{__name__}.{name}", "files", error) from error
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
