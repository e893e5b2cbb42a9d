"""The pure core of noted-time: cuts, notes, marks and the rules that lead from one to the next.

Nothing here reads a clock, a file or a socket: time and chance are arguments. The words are

* *note*: one writer's claim that all its events below a time lie below its position;
* *mark*: the aggregate of the notes, a stream cut with a lower and an upper time;
* *time window*: what a reader at some position may conclude from the marks.
"""

from noted_time.aggregator import Aggregator
from noted_time.answer import Accepted, Refused
from noted_time.backlog import Backlog, BacklogPolicy, BacklogState
from noted_time.cut import StreamCut
from noted_time.decision import Advance, Decision, Hold, Quiet, Sealed, Waiting
from noted_time.errors import (
    AlreadySealed,
    ClientFailed,
    Conflict,
    Fenced,
    ImplausibleTime,
    InvalidCut,
    InvalidFinalTime,
    InvalidName,
    InvalidNote,
    InvalidScale,
    KnownBeyond,
    LimitReached,
    MarkConflict,
    NotAllowed,
    NotCompleteYet,
    NotedMeanwhile,
    NotedTimeError,
    NotesRefused,
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
from noted_time.history import MarkHistory
from noted_time.mark import Mark, TimeWindow
from noted_time.note import Note, State
from noted_time.order import Lag, SegmentTimes
from noted_time.readers import ReaderGroup
from noted_time.record import MemberRecord
from noted_time.seal import Seal, SealRequest
from noted_time.service_clock import ServiceClock
from noted_time.settings import StreamSettings
from noted_time.succession import ScaleEvent, Succession
from noted_time.windows import CompleteWindow

__all__ = [
    "Accepted",
    "Advance",
    "Aggregator",
    "AlreadySealed",
    "Backlog",
    "BacklogPolicy",
    "BacklogState",
    "ClientFailed",
    "CompleteWindow",
    "Conflict",
    "Decision",
    "Fenced",
    "Hold",
    "ImplausibleTime",
    "InvalidCut",
    "InvalidFinalTime",
    "InvalidName",
    "InvalidNote",
    "InvalidScale",
    "KnownBeyond",
    "Lag",
    "LimitReached",
    "Mark",
    "MarkConflict",
    "MarkHistory",
    "MemberRecord",
    "NotAllowed",
    "NotCompleteYet",
    "Note",
    "NotedMeanwhile",
    "NotedTimeError",
    "NotesRefused",
    "Quiet",
    "ReaderGroup",
    "Refused",
    "Rejected",
    "ScaleEvent",
    "Seal",
    "SealRequest",
    "Sealed",
    "SegmentTimes",
    "ServiceClock",
    "SharedName",
    "State",
    "StreamCut",
    "StreamSealed",
    "StreamSettings",
    "Succession",
    "TimeWindow",
    "TooManySegments",
    "UnexpectedAnswer",
    "UnknownAlignment",
    "UnknownDomain",
    "UnknownReader",
    "UnknownStream",
    "UnknownWriter",
    "Unreachable",
    "Unreadable",
    "Waiting",
    "WritersMissing",
]
