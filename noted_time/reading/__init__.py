"""Reading: what a position, or a span of time, learns from the marks."""

from noted_time.reading.claims import Change, Commit, NoClaim, Standing, TableClaim, TableHistory
from noted_time.reading.committing import Remembered, accepted, committed_part, to_commit
from noted_time.reading.coverage import NOBODY, Coverage, Uncovered, VouchingTally, required_seq
from noted_time.reading.history import MarkHistory
from noted_time.reading.late import MOST_REPORTS, LateReports, by_writer
from noted_time.reading.missing import MissingWriters
from noted_time.reading.reader_place import ReaderPlace, reader_place
from noted_time.reading.readers import ReaderGroup
from noted_time.reading.relaying import NEW_SEGMENT_MS, RelayQueue, difference
from noted_time.reading.trend import Point
from noted_time.reading.units import check_time, look_like_seconds, seconds_doubt
from noted_time.reading.whole import WHOLE, WholeFrom, whole_of_all
from noted_time.reading.windows import (
    CompleteWindow,
    Tiling,
    changed_windows,
    check_windows,
    complete_windows,
)
