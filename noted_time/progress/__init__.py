"""How far readers are: in time, and behind the marks."""

from noted_time.progress.backlog import (
    UNKNOWN,
    Backlog,
    BacklogPolicy,
    BacklogState,
    Reason,
    combined,
    with_reason,
)
from noted_time.progress.order import Lag, SegmentTimes, largest_of
from noted_time.progress.read_offsets import ReadOffsets, check_known, offsets_of_json, to_look_up
