"""The names of this package that extensions may use, besides its public ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily
from reader_client.protocol.datasets import Asking, FeatureDataset, NoDomain, Steps, find_domain
from reader_client.protocol.questions import ask_completeness, ask_late_reports, ask_stream

if TYPE_CHECKING:
    from reader_client.protocol.vouching import read_noted

LAZY_IMPORTS = {"read_noted": ("reader_client.protocol.vouching", "analyse")}

__all__ = [
    "Asking",
    "FeatureDataset",
    "NoDomain",
    "Steps",
    "ask_completeness",
    "ask_late_reports",
    "ask_stream",
    "find_domain",
    "read_noted",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
