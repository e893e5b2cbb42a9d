"""Values: cuts, notes, marks, decisions, settings and errors."""

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
from noted_time.values.errors import (
    AlreadySealed,
    ClientFailed,
    Conflict,
    DeliveryFailed,
    Fenced,
    ImplausibleTime,
    InvalidCut,
    InvalidFinalTime,
    InvalidName,
    InvalidNote,
    InvalidScale,
    LimitReached,
    MarkConflict,
    NotAllowed,
    NotCompleteYet,
    NotedMeanwhile,
    NotedTimeError,
    NotesRefused,
    NotObservable,
    Recreated,
    Rejected,
    SharedName,
    StreamSealed,
    TooManySegments,
    UnexpectedAnswer,
    UnknownAlignment,
    UnknownDomain,
    UnknownReader,
    UnknownStream,
    UnknownWriter,
    Unreachable,
    Unreadable,
    WritersMissing,
)
from noted_time.values.fencing import LABEL_LENGTH, NO_SESSION, SESSION_LENGTH, HeldName, Session
from noted_time.values.given import Time, duration_ms, unix_ms_of
from noted_time.values.membership import (
    MISSING_NAMED,
    NO_TERMS,
    NOT_KNOWN,
    Absence,
    ExcludedSince,
    ExclusionReason,
    LateRows,
    Missing,
    MissingReason,
    MissingWriter,
    Reason,
    Terms,
)
from noted_time.values.note import (
    LARGEST_TIME,
    LEAST_TIME,
    MAX_NOTES_PER_REQUEST,
    SEGMENTS_PER_POSITION,
    UNCHANGED,
    Accepted,
    Note,
    Refused,
    State,
)
from noted_time.values.service_clock import ServiceClock
from noted_time.values.settings import (
    DAY_MS,
    NAME,
    ReturningWriter,
    StreamSettings,
    checked_name,
    unnamed_domain,
)
from noted_time.values.succession import ScaleEvent, Succession
from noted_time.values.times import (
    LEAST_UNIX_MS,
    MAX_INT64,
    MIN_INT64,
    UNIX_MS,
    Beyond,
    month,
    shown_duration,
    shown_gap,
    shown_seconds,
    shown_time,
)
