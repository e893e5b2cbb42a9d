"""The names of this package that extensions may use, besides its public ones.

They need extras, so they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from writer_client.at_exit import EXIT_WAIT_S
    from writer_client.kafka.event_times import (
        NullParent,
        TimeOf,
        get_timestamp,
        make_time_getter,
        make_values_getter,
    )
    from writer_client.sending.answers import FoundPosition
    from writer_client.sending.clock import unix_ms

LAZY_IMPORTS = {
    "EXIT_WAIT_S": ("writer_client.at_exit", ""),
    "FoundPosition": ("writer_client.sending.answers", ""),
    "NullParent": ("writer_client.kafka.event_times", "kafka"),
    "TimeOf": ("writer_client.kafka.event_times", "kafka"),
    "get_timestamp": ("writer_client.kafka.event_times", "kafka"),
    "make_time_getter": ("writer_client.kafka.event_times", "kafka"),
    "make_values_getter": ("writer_client.kafka.event_times", "kafka"),
    "unix_ms": ("writer_client.sending.clock", ""),
}

__all__ = [
    "EXIT_WAIT_S",
    "FoundPosition",
    "NullParent",
    "TimeOf",
    "get_timestamp",
    "make_time_getter",
    "make_values_getter",
    "unix_ms",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
