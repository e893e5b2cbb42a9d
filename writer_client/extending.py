"""The names of this package that extensions may use, besides its public ones.

Most need extras, so they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from writer_client.at_exit import EXIT_WAIT_S, end_client
    from writer_client.kafka.ends import CLOCK_AHEAD_MS, TopicPoller
    from writer_client.observer import SIGN_OF_LIFE_MS, Observer
    from writer_client.sending.answers import FoundPosition
    from writer_client.sending.clock import unix_ms
    from writer_client.sending.vouched import LateHours

LAZY_IMPORTS = {
    "CLOCK_AHEAD_MS": ("writer_client.kafka.ends", "kafka"),
    "EXIT_WAIT_S": ("writer_client.at_exit", ""),
    "FoundPosition": ("writer_client.sending.answers", ""),
    "LateHours": ("writer_client.sending.vouched", ""),
    "Observer": ("writer_client.observer", ""),
    "SIGN_OF_LIFE_MS": ("writer_client.observer", ""),
    "TopicPoller": ("writer_client.kafka.ends", "kafka"),
    "end_client": ("writer_client.at_exit", ""),
    "unix_ms": ("writer_client.sending.clock", ""),
}

__all__ = [
    "CLOCK_AHEAD_MS",
    "EXIT_WAIT_S",
    "SIGN_OF_LIFE_MS",
    "FoundPosition",
    "LateHours",
    "Observer",
    "TopicPoller",
    "end_client",
    "unix_ms",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
