"""Values: cuts, notes, marks, decisions, settings and errors."""

from noted_time.values.calendar import floored, shown_in
from noted_time.values.claim import (
    EXPECTS,
    LARGEST,
    NAMES_KEPT,
    NO_NAMES,
    VALID_THROUGH,
    Claim,
    claims_in,
    expected,
    kept_days,
)
from noted_time.values.cut import (
    Mark,
    SegmentWaited,
    StreamCut,
    TimeWindow,
    behind_of,
    gained_by,
    join_into,
    plain_position,
    reaches,
    waited_for,
)
from noted_time.values.decision import Advance, Decision, DecisionName, Hold, Quiet, Sealed, Waiting
from noted_time.values.errors import *  # noqa: F403 - what is public is in `noted_time`
from noted_time.values.fencing import (
    FORMER_KEPT,
    LABEL_LENGTH,
    NO_SESSION,
    SESSION_LENGTH,
    HeldName,
    Session,
)
from noted_time.values.given import Time, duration_ms, one_line, time_of, unix_ms_of
from noted_time.values.log_id import OtherLog, log_id
from noted_time.values.membership import (
    LATE_NOT_KNOWN,
    LONGEST_HOLD_MS,
    NO_TERMS,
    NOT_KNOWN,
    WRITERS_NAMED,
    Absence,
    ExcludedSince,
    ExclusionReason,
    Late,
    LatePlace,
    LateReport,
    LateRows,
    LateWriter,
    Missing,
    MissingReason,
    MissingWriter,
    Reason,
    Terms,
    late_by_hour,
)
from noted_time.values.note import (
    FURTHER_FIELDS,
    HELD_LENGTH,
    LARGEST_TIME,
    LEAST_TIME,
    MAX_NOTES_PER_REQUEST,
    MOST_LATE,
    SEGMENTS_PER_POSITION,
    UNCHANGED,
    Accepted,
    Note,
    Refused,
    RefusedStatus,
    State,
    reports_of,
)
from noted_time.values.service_clock import ServiceClock
from noted_time.values.settings import (
    NAME,
    ReturningWriter,
    StreamSettings,
    checked_name,
    unnamed_domain,
)
from noted_time.values.succession import ScaleEvent, Succession
from noted_time.values.times import (
    DAY_MS,
    HOUR_MS,
    LEAST_UNIX_MS,
    MAX_INT64,
    MIN_INT64,
    UNIX_MS,
    Beyond,
    Bounds,
    month,
    shown_duration,
    shown_gap,
    shown_seconds,
    shown_time,
)
