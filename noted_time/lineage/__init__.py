"""Follows a dataset to its writers, and explains which hop on the way holds it back."""

from noted_time.lineage.walking import (
    LET_CLAIM,
    RUN_QUERY,
    Dataset,
    Hop,
    HopSource,
    describe_table,
    walk,
)
from noted_time.lineage.why import Why

__all__ = ["LET_CLAIM", "RUN_QUERY", "Dataset", "Hop", "HopSource", "Why", "describe_table", "walk"]
