"""Derives times from the state of a log."""

from noted_time.observing.event_time_forms import build_time_form, describe_form
from noted_time.observing.ingestion import LEAST_POLL_MS, GrowingEnds, IngestionNotes
from noted_time.observing.newest_times import NewestTimes, Stamp
from noted_time.observing.open_transactions import OpenTransactions
from noted_time.observing.passed_over import Nulls, PassedOver, Passes
from noted_time.observing.seen import Seen
from noted_time.observing.segment_clocks import Outcome, SegmentClocks
from noted_time.observing.time_forms import (
    ANY_TIME,
    FIRST_TIMES,
    IN_MS,
    NULL_WARNING,
    PLACEHOLDER_WORDS,
    TWICE_WARNING,
    FirstPass,
    NoSuchTime,
    TimeForm,
    Unit,
    describe_skipped,
    find_arrival,
    find_bounds,
)
