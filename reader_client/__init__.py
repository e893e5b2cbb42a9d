"""The readers' side: follow the marks of a stream, and turn positions into time windows."""

from __future__ import annotations

from reader_client.async_client import AsyncReaderClient
from reader_client.client import ReaderClient
from reader_client.merging import merged

__all__ = ["AsyncReaderClient", "ReaderClient", "merged"]
