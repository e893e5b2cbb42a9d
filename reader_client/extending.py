"""The names of this package that extensions may use, besides its public ones."""

from __future__ import annotations

from reader_client.protocol.vouching import read_noted

__all__ = ["read_noted"]
