"""The core of noted-time: cuts, notes, marks, and the rules that turn notes into marks.

The rules and `Why` are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily
from noted_time.progress import Backlog as Backlog
from noted_time.progress import BacklogPolicy as BacklogPolicy
from noted_time.progress import BacklogState as BacklogState
from noted_time.progress import Lag as Lag
from noted_time.progress import SegmentTimes as SegmentTimes
from noted_time.reading import CompleteWindow as CompleteWindow
from noted_time.reading import MarkHistory as MarkHistory
from noted_time.reading import ReaderGroup as ReaderGroup
from noted_time.values import Accepted as Accepted
from noted_time.values import Advance as Advance
from noted_time.values import Decision as Decision
from noted_time.values import Hold as Hold
from noted_time.values import Mark as Mark
from noted_time.values import Note as Note
from noted_time.values import Quiet as Quiet
from noted_time.values import Refused as Refused
from noted_time.values import ScaleEvent as ScaleEvent
from noted_time.values import Sealed as Sealed
from noted_time.values import ServiceClock as ServiceClock
from noted_time.values import State as State
from noted_time.values import StreamCut as StreamCut
from noted_time.values import StreamSettings as StreamSettings
from noted_time.values import Succession as Succession
from noted_time.values import TimeWindow as TimeWindow
from noted_time.values import Waiting as Waiting
from noted_time.values.errors import AlreadySealed as AlreadySealed
from noted_time.values.errors import AnotherLog as AnotherLog
from noted_time.values.errors import ClientFailed as ClientFailed
from noted_time.values.errors import Conflict as Conflict
from noted_time.values.errors import DeliveryFailed as DeliveryFailed
from noted_time.values.errors import Fenced as Fenced
from noted_time.values.errors import ImplausibleTime as ImplausibleTime
from noted_time.values.errors import InvalidCut as InvalidCut
from noted_time.values.errors import InvalidFinalTime as InvalidFinalTime
from noted_time.values.errors import InvalidName as InvalidName
from noted_time.values.errors import InvalidNote as InvalidNote
from noted_time.values.errors import InvalidScale as InvalidScale
from noted_time.values.errors import LimitReached as LimitReached
from noted_time.values.errors import MarkConflict as MarkConflict
from noted_time.values.errors import NotAllowed as NotAllowed
from noted_time.values.errors import NotCompleteYet as NotCompleteYet
from noted_time.values.errors import NotedMeanwhile as NotedMeanwhile
from noted_time.values.errors import NotedTimeError as NotedTimeError
from noted_time.values.errors import NotesRefused as NotesRefused
from noted_time.values.errors import NotLive as NotLive
from noted_time.values.errors import NotObservable as NotObservable
from noted_time.values.errors import Recreated as Recreated
from noted_time.values.errors import Rejected as Rejected
from noted_time.values.errors import RowsLate as RowsLate
from noted_time.values.errors import SharedName as SharedName
from noted_time.values.errors import StreamSealed as StreamSealed
from noted_time.values.errors import TooManySegments as TooManySegments
from noted_time.values.errors import UnexpectedAnswer as UnexpectedAnswer
from noted_time.values.errors import UnknownDomain as UnknownDomain
from noted_time.values.errors import UnknownReader as UnknownReader
from noted_time.values.errors import UnknownStream as UnknownStream
from noted_time.values.errors import UnknownWriter as UnknownWriter
from noted_time.values.errors import Unreachable as Unreachable
from noted_time.values.errors import Unreadable as Unreadable
from noted_time.values.errors import WritersMissing as WritersMissing

if TYPE_CHECKING:
    from noted_time.lineage import Why as Why
    from noted_time.rules import Aggregator as Aggregator
    from noted_time.rules import MemberRecord as MemberRecord
    from noted_time.rules import Seal as Seal
    from noted_time.rules import SealRequest as SealRequest

LAZY_IMPORTS = {
    **dict.fromkeys(
        ("Aggregator", "MemberRecord", "Seal", "SealRequest"), ("noted_time.rules", "")
    ),
    "Why": ("noted_time.lineage", ""),
}

__all__ = [
    name for name in sorted({*globals(), *LAZY_IMPORTS}) if name[0].isupper() and not name.isupper()
]

for _each in [*globals().values()]:
    if isinstance(_each, type) and issubclass(_each, NotedTimeError):
        _each.__module__ = __name__  # tracebacks show the name under which an error is imported


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
