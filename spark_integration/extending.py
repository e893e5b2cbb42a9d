"""The names of this package that extensions may use, besides its public ones.

They are imported on first use, because Spark's workers need only some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from spark_integration.checkpoint.files import open_checkpoint
    from spark_integration.checkpoint.query_progress import PlannedBatch, QueryProgress
    from spark_integration.marks.arguments import SAFE_POLICY, check_one_of, convert_time
    from spark_integration.marks.feed import ControllerFeed, check_known
    from spark_integration.marks.offset import (
        NotedOffset,
        StreamFacts,
        StreamOffset,
        is_noted,
        is_of_log,
        is_of_marks,
        list_facts,
    )
    from spark_integration.marks.own_form import NO_FORM, OwnForm
    from spark_integration.marks.planned_reader import PlannedReader
    from spark_integration.marks.planner import Planner
    from spark_integration.marks.reader_options import choose_options, find_lag_ms
    from spark_integration.marks.release import Releaser
    from spark_integration.marks.released import Watermark
    from spark_integration.marks.time_range import ALL_TIMES, TimeRange
    from spark_integration.marks.watermark import (
        DELAY_METADATA,
        INSTANT_TYPE,
        LAST_MS,
        MARK_TIME,
        build_instant,
        select_scan_events,
    )
    from spark_integration.marks.window import OnMissing, wait_for_window
    from spark_integration.session.pickling import Picklable
    from spark_integration.session.settings import build_source_name, set_reader_name
    from spark_integration.session.sources import (
        TOKEN_OPTION,
        QuerySource,
        build_options,
        count_cores,
        create_reader,
    )
    from spark_integration.session.versions import PYTHON_SOURCES, require

LAZY_IMPORTS = {
    "ALL_TIMES": "marks.time_range",
    "ControllerFeed": "marks.feed",
    "DELAY_METADATA": "marks.watermark",
    "INSTANT_TYPE": "marks.watermark",
    "LAST_MS": "marks.watermark",
    "MARK_TIME": "marks.watermark",
    "NO_FORM": "marks.own_form",
    "NotedOffset": "marks.offset",
    "OnMissing": "marks.window",
    "OwnForm": "marks.own_form",
    "PYTHON_SOURCES": "session.versions",
    "Picklable": "session.pickling",
    "PlannedBatch": "checkpoint.query_progress",
    "PlannedReader": "marks.planned_reader",
    "Planner": "marks.planner",
    "QueryProgress": "checkpoint.query_progress",
    "QuerySource": "session.sources",
    "Releaser": "marks.release",
    "SAFE_POLICY": "marks.arguments",
    "StreamFacts": "marks.offset",
    "StreamOffset": "marks.offset",
    "TOKEN_OPTION": "session.sources",
    "TimeRange": "marks.time_range",
    "Watermark": "marks.released",
    "build_instant": "marks.watermark",
    "build_options": "session.sources",
    "build_source_name": "session.settings",
    "check_known": "marks.feed",
    "check_one_of": "marks.arguments",
    "choose_options": "marks.reader_options",
    "convert_time": "marks.arguments",
    "count_cores": "session.sources",
    "create_reader": "session.sources",
    "find_lag_ms": "marks.reader_options",
    "is_noted": "marks.offset",
    "is_of_log": "marks.offset",
    "is_of_marks": "marks.offset",
    "list_facts": "marks.offset",
    "open_checkpoint": "checkpoint.files",
    "require": "session.versions",
    "select_scan_events": "marks.watermark",
    "set_reader_name": "session.settings",
    "wait_for_window": "marks.window",
}

__all__ = [
    "ALL_TIMES",
    "DELAY_METADATA",
    "INSTANT_TYPE",
    "LAST_MS",
    "MARK_TIME",
    "NO_FORM",
    "PYTHON_SOURCES",
    "SAFE_POLICY",
    "TOKEN_OPTION",
    "ControllerFeed",
    "NotedOffset",
    "OnMissing",
    "OwnForm",
    "Picklable",
    "PlannedBatch",
    "PlannedReader",
    "Planner",
    "QueryProgress",
    "QuerySource",
    "Releaser",
    "StreamFacts",
    "StreamOffset",
    "TimeRange",
    "Watermark",
    "build_instant",
    "build_options",
    "build_source_name",
    "check_known",
    "check_one_of",
    "choose_options",
    "convert_time",
    "count_cores",
    "create_reader",
    "find_lag_ms",
    "is_noted",
    "is_of_log",
    "is_of_marks",
    "list_facts",
    "open_checkpoint",
    "require",
    "select_scan_events",
    "set_reader_name",
    "wait_for_window",
]


def __getattr__(name: str) -> object:
    names = {
        public_name: (f"spark_integration.{module}", "spark")
        for public_name, module in LAZY_IMPORTS.items()
    }
    return import_lazily(__name__, names, name)
