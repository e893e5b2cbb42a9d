"""How far readers are: in time, behind the marks, and ahead of each other."""

from noted_time.progress.alignment import (
    Alignment,
    AlignmentNow,
    AlignmentSettings,
    GroupOfStream,
    HeldBound,
    MemberNow,
    Standing,
)
from noted_time.progress.backlog import (
    UNKNOWN,
    Backlog,
    BacklogPolicy,
    BacklogState,
    CombinedBacklog,
    Reason,
    combined,
    with_reason,
)
from noted_time.progress.order import Lag, SegmentTimes, largest_of
