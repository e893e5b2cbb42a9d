"""Computes times, cuts and windows from marks."""

from noted_time.reading.coverage import (
    UNKNOWN_STATUS,
    CountsByWriter,
    Coverage,
    Gaps,
    Spells,
    find_required_seq,
    find_stated_end,
)
from noted_time.reading.history import MarkHistory
from noted_time.reading.late import MOST_REPORTS, LateReports, sum_by_writer
from noted_time.reading.missing import MissingWriters
from noted_time.reading.reader_place import ReaderPlace, locate_reader
from noted_time.reading.readers import ReaderGroup
from noted_time.reading.relaying import NEW_SEGMENT_MS, RelayQueue, describe_difference
from noted_time.reading.trend import Point
from noted_time.reading.units import check_time
from noted_time.reading.whole import WHOLE_LOG, WholeFrom, combine_whole
from noted_time.reading.windows import (
    CompleteWindow,
    Tiling,
    check_windows,
    find_answering_mark,
    find_changed_windows,
    find_complete_windows,
)
