"""Follows a dataset to its writers, and explains which hop on the way holds it back."""

from noted_time.lineage.walking import RUN_QUERY, Dataset, Hop, HopSource, walk
from noted_time.lineage.why import Why

__all__ = ["RUN_QUERY", "Dataset", "Hop", "HopSource", "Why", "walk"]
