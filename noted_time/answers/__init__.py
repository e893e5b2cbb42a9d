"""The controller's answers, declared once for the controller, OpenAPI and clients."""

from noted_time.answers.group_answers import (
    Cause,
    GroupAnswer,
    GroupNowAnswer,
    GroupRow,
    GroupRowAnswer,
    GroupsPage,
    ReaderLag,
    SegmentTimeAnswer,
    SegmentTimesAnswer,
)
from noted_time.answers.mark_answers import CompleteWindowsPage, CutAnswer, MarksAnswer
from noted_time.answers.note_answers import NotesAnswer, Problem, RefusedAnswer
from noted_time.answers.overviews import (
    CONDITIONS,
    Active,
    Condition,
    DomainRow,
    Members,
    OverviewPage,
    Period,
    Silence,
    StreamRow,
)
from noted_time.answers.stream_answers import (
    AccessAnswer,
    Action,
    ChangeAnswer,
    ChangesPage,
    ControllerAnswer,
    ControllersAnswer,
    DroppedAnswer,
    EntryAnswer,
    LedgerPage,
    Replica,
    SealAnswer,
    SealedAnswer,
    SegmentRow,
    SegmentsPage,
    SegmentState,
    StreamAnswer,
    StreamsPage,
    TruncatedAnswer,
)
from noted_time.answers.writer_answers import Explanation, Hint, HintKind, WriterRow, WritersPage
from noted_time.verdict import Completeness
