"""The names of this package that extensions may use, besides its public ones.

They are imported on first use, as most of them need extras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from writer_client.files.arrow_times import ArrowTimes, convert_times, list_first
    from writer_client.kafka.ends import CLOCK_AHEAD_MS, TopicPoller
    from writer_client.sending.clock import unix_ms
    from writer_client.sending.vouched import LateHours

LAZY_IMPORTS = {
    "ArrowTimes": ("writer_client.files.arrow_times", "files"),
    "CLOCK_AHEAD_MS": ("writer_client.kafka.ends", "kafka"),
    "LateHours": ("writer_client.sending.vouched", ""),
    "TopicPoller": ("writer_client.kafka.ends", "kafka"),
    "convert_times": ("writer_client.files.arrow_times", "files"),
    "list_first": ("writer_client.files.arrow_times", "files"),
    "unix_ms": ("writer_client.sending.clock", ""),
}

__all__ = [
    "CLOCK_AHEAD_MS",
    "ArrowTimes",
    "LateHours",
    "TopicPoller",
    "convert_times",
    "list_first",
    "unix_ms",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
