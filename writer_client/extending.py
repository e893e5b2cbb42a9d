"""The names of this package that extensions may use, besides its public ones.

They need extras, so they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from writer_client.files.arrow_times import ArrowTimes, convert_times, list_first
    from writer_client.kafka.event_times import (
        NullParent,
        TimeOf,
        get_timestamp,
        make_time_getter,
        make_values_getter,
    )

LAZY_IMPORTS = {
    "ArrowTimes": ("writer_client.files.arrow_times", "files"),
    "NullParent": ("writer_client.kafka.event_times", "kafka"),
    "TimeOf": ("writer_client.kafka.event_times", "kafka"),
    "convert_times": ("writer_client.files.arrow_times", "files"),
    "get_timestamp": ("writer_client.kafka.event_times", "kafka"),
    "list_first": ("writer_client.files.arrow_times", "files"),
    "make_time_getter": ("writer_client.kafka.event_times", "kafka"),
    "make_values_getter": ("writer_client.kafka.event_times", "kafka"),
}

__all__ = [
    "ArrowTimes",
    "NullParent",
    "TimeOf",
    "convert_times",
    "get_timestamp",
    "list_first",
    "make_time_getter",
    "make_values_getter",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
