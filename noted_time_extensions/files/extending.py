"""The names of this extension that other extensions may use, besides its public ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extending import import_lazily

if TYPE_CHECKING:
    from noted_time_extensions.files.arrow_times import ArrowTimes, convert_times, list_first
    from noted_time_extensions.files.directories import LogDirectories
    from noted_time_extensions.files.log_options import Ignore, LogRoot

LAZY_IMPORTS = {
    "ArrowTimes": ("noted_time_extensions.files.arrow_times", "files"),
    "Ignore": ("noted_time_extensions.files.log_options", "cli"),
    "LogDirectories": ("noted_time_extensions.files.directories", ""),
    "LogRoot": ("noted_time_extensions.files.log_options", "cli"),
    "convert_times": ("noted_time_extensions.files.arrow_times", "files"),
    "list_first": ("noted_time_extensions.files.arrow_times", "files"),
}

__all__ = ["ArrowTimes", "Ignore", "LogDirectories", "LogRoot", "convert_times", "list_first"]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
