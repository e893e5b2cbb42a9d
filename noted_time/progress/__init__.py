"""Measures how far readers have read."""

from noted_time.progress.backlog import (
    UNKNOWN_BACKLOG,
    Backlog,
    BacklogPolicy,
    BacklogState,
    Reason,
    add_reported,
    combine_flags,
)
from noted_time.progress.read_offsets import (
    ReadOffsets,
    check_known,
    find_lookup_starts,
    parse_offsets,
)
from noted_time.progress.segment_times import Lag, SegmentTimes, find_largest_lag
