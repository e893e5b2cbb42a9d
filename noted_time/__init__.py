"""The errors of noted-time, and the values that its clients take and return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily
from noted_time.progress import BacklogPolicy, BacklogState, Lag
from noted_time.reading import CompleteWindow
from noted_time.values import Mark, State, StreamCut, TimeWindow
from noted_time.values.errors import (
    AnotherForm,
    AnotherLog,
    ClientFailed,
    Conflict,
    DeliveryFailed,
    Fenced,
    ImplausibleTime,
    InvalidName,
    InvalidNote,
    NotAllowed,
    NotCompleteYet,
    NotedTimeError,
    NotObservable,
    Recreated,
    Rejected,
    RowsMissing,
    SharedName,
    UnexpectedAnswer,
    UnknownCall,
    UnknownDomain,
    UnknownStream,
    Unreachable,
    Unreadable,
    UnreadableRows,
)

if TYPE_CHECKING:
    from noted_time.lineage import Why

__version__ = "0.9.0.dev0"

LAZY_IMPORTS = {"Why": ("noted_time.lineage", "")}

__all__ = [
    "AnotherForm",
    "AnotherLog",
    "BacklogPolicy",
    "BacklogState",
    "ClientFailed",
    "CompleteWindow",
    "Conflict",
    "DeliveryFailed",
    "Fenced",
    "ImplausibleTime",
    "InvalidName",
    "InvalidNote",
    "Lag",
    "Mark",
    "NotAllowed",
    "NotCompleteYet",
    "NotObservable",
    "NotedTimeError",
    "Recreated",
    "Rejected",
    "RowsMissing",
    "SharedName",
    "State",
    "StreamCut",
    "TimeWindow",
    "UnexpectedAnswer",
    "UnknownCall",
    "UnknownDomain",
    "UnknownStream",
    "Unreachable",
    "Unreadable",
    "UnreadableRows",
    "Why",
]

for _each in [*globals().values()]:
    if isinstance(_each, type) and issubclass(_each, NotedTimeError):
        _each.__module__ = __name__  # tracebacks show the name under which an error is imported


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
