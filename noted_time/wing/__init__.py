"""Beside the marks: order, backlog, alignment, clocks of segments, ingestion and file logs."""

from noted_time.wing.alignment import (
    Alignment,
    AlignmentNow,
    AlignmentSettings,
    GroupOfStream,
    HeldBound,
    MemberNow,
    Standing,
)
from noted_time.wing.archives import check_root, check_segment, segments_in
from noted_time.wing.backlog import (
    UNKNOWN,
    Backlog,
    BacklogPolicy,
    BacklogState,
    CombinedBacklog,
    Reason,
    with_reason,
)
from noted_time.wing.broker_clocks import BrokerClocks, BrokerLook
from noted_time.wing.file_log import SUFFIX, file_name, is_hidden, segment_directory, start_of
from noted_time.wing.ingestion import INGESTION, LEAST_POLL_MS, GrowingEnds, Look
from noted_time.wing.newest_times import NewestTimes, Stamp
from noted_time.wing.order import Lag, SegmentTimes, largest_of
from noted_time.wing.resolved import RESOLVED, resolved_time
from noted_time.wing.segment_clocks import Outcome, SegmentClocks
