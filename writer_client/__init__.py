"""The writers' side: note time, and append to the file log.

`WriterClient` needs no Parquet; `SegmentLogWriter` brings pyarrow in when it is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from writer_client.async_client import AsyncWriterClient
from writer_client.client import WriterClient
from writer_client.outcome import Exclusion, Flushed

if TYPE_CHECKING:
    from writer_client.segment_log import SegmentLogWriter

__all__ = ["AsyncWriterClient", "Exclusion", "Flushed", "SegmentLogWriter", "WriterClient"]


def __getattr__(name: str) -> object:
    if name == "SegmentLogWriter":
        from writer_client.segment_log import SegmentLogWriter  # noqa: PLC0415 - needs pyarrow

        return SegmentLogWriter
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
