"""The names of this package that extensions may use, besides its public ones."""

from __future__ import annotations

from spark_integration.checkpoint.files import open_checkpoint
from spark_integration.checkpoint.query_progress import PlannedBatch, QueryProgress
from spark_integration.marks.offset import StreamFacts, is_noted, is_of_log, is_of_marks, list_facts

__all__ = [
    "PlannedBatch",
    "QueryProgress",
    "StreamFacts",
    "is_noted",
    "is_of_log",
    "is_of_marks",
    "list_facts",
    "open_checkpoint",
]
