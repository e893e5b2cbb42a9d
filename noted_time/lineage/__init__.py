"""Follows a dataset to its writers, and explains which hop on the way holds it."""

from noted_time.lineage.walking import RUN_QUERY, Dataset, Hop, Source, describe_table, walk
from noted_time.lineage.why import Why

__all__ = ["RUN_QUERY", "Dataset", "Hop", "Source", "Why", "describe_table", "walk"]
