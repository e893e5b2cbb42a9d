"""Numbers of batches, stored in log files so that repeated appends are idempotent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

METADATA_KEY = b"noted_time.batch"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a `source`, such as a query, which numbers its batches 0, 1, 2 … in order.

    >>> Batch("5b1e", 3).to_metadata()
    {b'noted_time.batch': b'5b1e:3'}
    >>> Batch.from_metadata(Batch("5b1e", 3).to_metadata())
    Batch(source='5b1e', number=3)
    """

    source: str
    number: int

    def to_metadata(self) -> dict[bytes, bytes]:
        """Return the entry for a file's metadata."""
        return {METADATA_KEY: f"{self.source}:{self.number}".encode()}

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None) -> Batch | None:
        """Return the batch of a file, or `None`."""
        source, _, number = (metadata or {}).get(METADATA_KEY, b"").decode().rpartition(":")
        if not number.isdecimal():
            return None
        return cls(source, int(number))
