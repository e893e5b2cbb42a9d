"""The pure core of noted-time: cuts, notes, marks and the rules that lead from one to the next.

Only `client` uses a library or a socket, and nothing uses a clock: time and chance are arguments.
`docs/reference/glossary.md` defines the words.

The rules are imported when one of their names is first used: clients and queries need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import imported
from noted_time.progress import Backlog, BacklogPolicy, BacklogState, Lag, SegmentTimes
from noted_time.reading import CompleteWindow, MarkHistory, ReaderGroup
from noted_time.values import (
    Accepted,
    Advance,
    AlreadySealed,
    AnotherLog,
    ClientFailed,
    Conflict,
    Decision,
    DeliveryFailed,
    Fenced,
    Hold,
    ImplausibleTime,
    InvalidCut,
    InvalidFinalTime,
    InvalidName,
    InvalidNote,
    InvalidScale,
    LimitReached,
    Mark,
    MarkConflict,
    NotAllowed,
    NotCompleteYet,
    Note,
    NotedMeanwhile,
    NotedTimeError,
    NotesRefused,
    NotLive,
    NotObservable,
    Quiet,
    Recreated,
    Refused,
    Rejected,
    RowsLate,
    ScaleEvent,
    Sealed,
    ServiceClock,
    SharedName,
    State,
    StreamCut,
    StreamSealed,
    StreamSettings,
    Succession,
    TimeWindow,
    TooManySegments,
    UnexpectedAnswer,
    UnknownDomain,
    UnknownReader,
    UnknownStream,
    UnknownWriter,
    Unreachable,
    Unreadable,
    Waiting,
    WritersMissing,
)

if TYPE_CHECKING:
    from noted_time.rules import Aggregator, MemberRecord, Seal, SealRequest

__all__ = [
    "Accepted",
    "Advance",
    "Aggregator",
    "AlreadySealed",
    "AnotherLog",
    "Backlog",
    "BacklogPolicy",
    "BacklogState",
    "ClientFailed",
    "CompleteWindow",
    "Conflict",
    "Decision",
    "DeliveryFailed",
    "Fenced",
    "Hold",
    "ImplausibleTime",
    "InvalidCut",
    "InvalidFinalTime",
    "InvalidName",
    "InvalidNote",
    "InvalidScale",
    "Lag",
    "LimitReached",
    "Mark",
    "MarkConflict",
    "MarkHistory",
    "MemberRecord",
    "NotAllowed",
    "NotCompleteYet",
    "NotLive",
    "NotObservable",
    "Note",
    "NotedMeanwhile",
    "NotedTimeError",
    "NotesRefused",
    "Quiet",
    "ReaderGroup",
    "Recreated",
    "Refused",
    "Rejected",
    "RowsLate",
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
    "UnknownDomain",
    "UnknownReader",
    "UnknownStream",
    "UnknownWriter",
    "Unreachable",
    "Unreadable",
    "Waiting",
    "WritersMissing",
]

RULES = dict.fromkeys(
    ("Aggregator", "MemberRecord", "Seal", "SealRequest"), ("noted_time.rules", "")
)

for _name in __all__:
    _each = globals().get(_name)
    if isinstance(_each, type) and issubclass(_each, NotedTimeError):
        _each.__module__ = __name__  # tracebacks name an error as it is imported


def __getattr__(name: str) -> object:
    return imported(__name__, RULES, name)
