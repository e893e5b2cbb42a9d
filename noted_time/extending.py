"""The names of this package that extensions may use, besides its public ones.

They change only with a new version of the project, as `docs/reference/versions.md` says. Names that
need an extra are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.client import run
from noted_time.client.transport import Transport
from noted_time.extensions import Command
from noted_time.extras import import_lazily, require_extra
from noted_time.filelog import LogDirectories
from noted_time.installation import name_program
from noted_time.observing import (
    FIRST_TIMES,
    PLACEHOLDER_WORDS,
    FirstPass,
    TimeForm,
    find_arrival,
    find_bounds,
)
from noted_time.stores import LogPath, ObjectPath, parse_root, store_of
from noted_time.values import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    UNITS_MS,
    UNIX_MS,
    WEEK_MS,
    YEAR_MS,
    AnotherLog,
    NotObservable,
    Rejected,
    Unreachable,
    Unreadable,
    floor_time,
    format_duration,
    format_time,
    join_names,
    pluralize,
)

if TYPE_CHECKING:
    from noted_time.analysis import (
        BROKEN_VERDICT,
        UNKNOWN_VERDICT,
        NotedMarks,
        Owners,
        WriterPromise,
        group_rows,
    )
    from noted_time.kafka import Topic
    from noted_time.kafka.records import TopicReader
    from noted_time.kafka.topic import TopicLook

LAZY_IMPORTS = {
    "BROKEN_VERDICT": ("noted_time.analysis", "analyse"),
    "NotedMarks": ("noted_time.analysis", "analyse"),
    "Owners": ("noted_time.analysis", "analyse"),
    "Topic": ("noted_time.kafka", "kafka"),
    "TopicLook": ("noted_time.kafka.topic", "kafka"),
    "TopicReader": ("noted_time.kafka.records", "kafka"),
    "UNKNOWN_VERDICT": ("noted_time.analysis", "analyse"),
    "WriterPromise": ("noted_time.analysis", "analyse"),
    "group_rows": ("noted_time.analysis", "analyse"),
}

__all__ = [
    "BROKEN_VERDICT",
    "DAY_MS",
    "EPOCH",
    "FIRST_TIMES",
    "HOUR_MS",
    "PLACEHOLDER_WORDS",
    "UNITS_MS",
    "UNIX_MS",
    "UNKNOWN_VERDICT",
    "WEEK_MS",
    "YEAR_MS",
    "AnotherLog",
    "Command",
    "FirstPass",
    "LogDirectories",
    "LogPath",
    "NotObservable",
    "NotedMarks",
    "ObjectPath",
    "Owners",
    "Rejected",
    "TimeForm",
    "Topic",
    "TopicLook",
    "TopicReader",
    "Transport",
    "Unreachable",
    "Unreadable",
    "WriterPromise",
    "find_arrival",
    "find_bounds",
    "floor_time",
    "format_duration",
    "format_time",
    "group_rows",
    "join_names",
    "name_program",
    "parse_root",
    "pluralize",
    "require_extra",
    "run",
    "store_of",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
