"""The names of this package that extensions may use, besides its public ones.

They are imported on first use, as most of them need extras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from writer_client.files.arrow_times import ArrowTimes, convert_times, list_first
    from writer_client.kafka.ends import CLOCK_AHEAD_MS, TopicPoller
    from writer_client.kafka.event_times import (
        NullParent,
        TimeOf,
        get_timestamp,
        make_time_getter,
        make_values_getter,
    )
    from writer_client.sending.clock import unix_ms
    from writer_client.sending.vouched import LateHours

LAZY_IMPORTS = {
    "ArrowTimes": ("writer_client.files.arrow_times", "files"),
    "CLOCK_AHEAD_MS": ("writer_client.kafka.ends", "kafka"),
    "LateHours": ("writer_client.sending.vouched", ""),
    "NullParent": ("writer_client.kafka.event_times", "kafka"),
    "TimeOf": ("writer_client.kafka.event_times", "kafka"),
    "TopicPoller": ("writer_client.kafka.ends", "kafka"),
    "convert_times": ("writer_client.files.arrow_times", "files"),
    "get_timestamp": ("writer_client.kafka.event_times", "kafka"),
    "list_first": ("writer_client.files.arrow_times", "files"),
    "make_time_getter": ("writer_client.kafka.event_times", "kafka"),
    "make_values_getter": ("writer_client.kafka.event_times", "kafka"),
    "unix_ms": ("writer_client.sending.clock", ""),
}

__all__ = [
    "CLOCK_AHEAD_MS",
    "ArrowTimes",
    "LateHours",
    "NullParent",
    "TimeOf",
    "TopicPoller",
    "convert_times",
    "get_timestamp",
    "list_first",
    "make_time_getter",
    "make_values_getter",
    "unix_ms",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
