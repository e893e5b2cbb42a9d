"""The settings of a stream, their defaults and their bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from noted_time.errors import InvalidName, Rejected

ReturningWriter = Literal["hold", "exclude"]

DAY_MS = 24 * 60 * 60 * 1000
NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def checked_name(what: str, name: str) -> str:
    """Return `name`; raises `InvalidName` naming `what` where it is not a legal name.

    >>> checked_name("stream", "flights.2013")
    'flights.2013'
    """
    if not NAME.fullmatch(name):
        raise InvalidName(what, name)
    return name


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What the owner of a stream decides; every duration in ms.

    `mark_interval_ms` is the least wall time between marks, 0 for a mark at every advance.
    `returning_writer`: whether time stands for a writer that comes back below the last lower
    (`hold`) or goes on without it until it has caught up (`exclude`). A note whose time is more
    than `max_time_ahead_ms` beyond the wall clock is refused; `None` asks no clock, as times may be
    none of ours. Writers that are gone for `writer_retention_ms` are forgotten.
    """

    writer_timeout_ms: int = 60_000
    mark_interval_ms: int = 200
    returning_writer: ReturningWriter = "hold"
    keys: tuple[str, ...] = ("default",)
    mark_retention_ms: int = 7 * DAY_MS
    max_time_ahead_ms: int | None = None
    writer_retention_ms: int = DAY_MS

    def __post_init__(self) -> None:
        if not self.keys or len(set(self.keys)) != len(self.keys):
            message = f"keys must be one or more different names, not {list(self.keys)}"
            raise Rejected(message)
        for key in self.keys:
            checked_name("key", key)

    def key_or_default(self, key: str | None) -> str:
        """Return the key that an unnamed one stands for: `default`, or the only one declared.

        >>> StreamSettings(keys=("ship_time",)).key_or_default(None)
        'ship_time'
        """
        if key is not None:
            return key
        return self.keys[0] if len(self.keys) == 1 else "default"
