"""The names of this package that extensions may use, besides its public ones.

They change only with a new version of the project, as `docs/reference/versions.md` says. Names that
need an extra are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.answers import LedgerPage
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.coding import convert_from_json
from noted_time.deadlines import call_in_thread
from noted_time.extensions import Command, Scheme
from noted_time.extras import import_lazily, load_function, require_extra
from noted_time.filelog import LogDirectories
from noted_time.installation import name_program
from noted_time.lineage import RUN_QUERY, Dataset, Hop, HopSource
from noted_time.observing import (
    ANY_TIME,
    FIRST_TIMES,
    IN_MS,
    NULL_WARNING,
    PLACEHOLDER_WORDS,
    TWICE_WARNING,
    FirstPass,
    Nulls,
    PassedOver,
    Passes,
    TimeForm,
    describe_form,
    find_arrival,
    find_bounds,
)
from noted_time.progress import ReadOffsets
from noted_time.reading import WHOLE_LOG, WholeFrom, combine_whole
from noted_time.stores import LogPath, ObjectPath, parse_root, store_of
from noted_time.values import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    INGESTION_NAME,
    LABEL_LENGTH,
    LARGEST_TIME,
    LEAST_TIME,
    MAX_INT64,
    MIN_INT64,
    NAME_PATTERN,
    UNITS_MS,
    UNIX_MS,
    WEEK_MS,
    YEAR_MS,
    AnotherLog,
    Conflict,
    EventTimeForm,
    EventTimeKind,
    Int64,
    LateReport,
    LateRows,
    LogFact,
    NotedTimeError,
    NotObservable,
    Rejected,
    Time,
    Unreachable,
    Unreadable,
    check_least,
    floor_time,
    format_duration,
    format_gap,
    format_line,
    format_time,
    join_names,
    parse_duration,
    pluralize,
    unix_ms_of,
    validate_name,
)
from noted_time.verdict import Completeness, Lack, Requirement, VerdictStatus, describe_objections
from noted_time.verdict.completeness import LackKind, find_remedy, find_status, name_source
from noted_time.verdict.words import describe_first_mark, describe_open

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
    from noted_time.kafka.noted_topic import name_noted_topic
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
    "name_noted_topic": ("noted_time.kafka.noted_topic", "kafka"),
}

__all__ = [
    "ANY_TIME",
    "BROKEN_VERDICT",
    "DAY_MS",
    "EPOCH",
    "FIRST_TIMES",
    "HOUR_MS",
    "INGESTION_NAME",
    "IN_MS",
    "LABEL_LENGTH",
    "LARGEST_TIME",
    "LEAST_TIME",
    "MAX_INT64",
    "MIN_INT64",
    "NAME_PATTERN",
    "NULL_WARNING",
    "PLACEHOLDER_WORDS",
    "RUN_QUERY",
    "TWICE_WARNING",
    "UNITS_MS",
    "UNIX_MS",
    "UNKNOWN_VERDICT",
    "WEEK_MS",
    "WHOLE_LOG",
    "YEAR_MS",
    "AnotherLog",
    "Command",
    "Completeness",
    "Conflict",
    "Dataset",
    "EventTimeForm",
    "EventTimeKind",
    "FirstPass",
    "Hop",
    "HopSource",
    "Int64",
    "Lack",
    "LackKind",
    "LateReport",
    "LateRows",
    "LedgerPage",
    "LogDirectories",
    "LogFact",
    "LogPath",
    "NotObservable",
    "NotedMarks",
    "NotedTimeError",
    "Nulls",
    "ObjectPath",
    "Owners",
    "PassedOver",
    "Passes",
    "Question",
    "ReadOffsets",
    "Rejected",
    "Requirement",
    "Scheme",
    "Time",
    "TimeForm",
    "Topic",
    "TopicLook",
    "TopicReader",
    "Transport",
    "Unreachable",
    "Unreadable",
    "VerdictStatus",
    "WholeFrom",
    "WriterPromise",
    "call_in_thread",
    "check_least",
    "combine_whole",
    "convert_from_json",
    "describe_first_mark",
    "describe_form",
    "describe_objections",
    "describe_open",
    "find_arrival",
    "find_bounds",
    "find_remedy",
    "find_status",
    "floor_time",
    "format_duration",
    "format_gap",
    "format_line",
    "format_time",
    "group_rows",
    "import_lazily",
    "join_names",
    "load_function",
    "name_noted_topic",
    "name_program",
    "name_source",
    "parse_duration",
    "parse_root",
    "pluralize",
    "require_extra",
    "run",
    "store_of",
    "unix_ms_of",
    "validate_name",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
