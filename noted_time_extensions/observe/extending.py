"""The names of this extension that others may use, besides its public ones.

They need extras, so they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extending import import_lazily

if TYPE_CHECKING:
    from noted_time_extensions.observe.event_times import (
        NullParent,
        TimeOf,
        get_timestamp,
        make_time_getter,
        make_values_getter,
    )
    from noted_time_extensions.observe.schema_options import SchemaOptions

LAZY_IMPORTS = {
    "NullParent": ("noted_time_extensions.observe.event_times", "kafka"),
    "SchemaOptions": ("noted_time_extensions.observe.schema_options", "cli"),
    "TimeOf": ("noted_time_extensions.observe.event_times", "kafka"),
    "get_timestamp": ("noted_time_extensions.observe.event_times", "kafka"),
    "make_time_getter": ("noted_time_extensions.observe.event_times", "kafka"),
    "make_values_getter": ("noted_time_extensions.observe.event_times", "kafka"),
}

__all__ = [
    "NullParent",
    "SchemaOptions",
    "TimeOf",
    "get_timestamp",
    "make_time_getter",
    "make_values_getter",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
