"""The settings of a stream, their defaults and their bounds."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from noted_time.values.errors import InvalidName, Rejected
from noted_time.values.times import DAY_MS, HOUR_MS

ReturningWriter = Literal["hold", "exclude"]

NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}", re.ASCII)
"""Neither `.` nor `..`: clients and proxies remove these from a path before it is sent."""


def checked_name(what: str, name: str) -> str:
    """Return `name`; raises `InvalidName` naming `what` if the name is not legal.

    >>> checked_name("stream", "flights.2013")
    'flights.2013'
    >>> [name for name in (".", "..", "...", ".a", "") if NAME.fullmatch(name)]
    ['...', '.a']
    """
    if not NAME.fullmatch(name):
        raise InvalidName(what, name)
    return name


def unnamed_domain(declared: Collection[str]) -> str:
    """Return the domain that is meant where none is named: the only one declared, or `default`.

    >>> unnamed_domain(["ship_time"]), unnamed_domain(["order_time", "ship_time"])
    ('ship_time', 'default')
    """
    return next(iter(declared)) if len(declared) == 1 else "default"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What the owner of a stream decides; every duration in ms.

    `mark_interval_ms` is the least wall time between marks, 0 for a mark at every advance.
    `returning_writer`: whether the watermark waits for a writer that returns below the last lower
    (`hold`) or advances without it until it has caught up (`exclude`). A note whose time is more
    than `max_time_ahead_ms` beyond the wall clock is refused; With `None` no clock is asked, as
    times may not be wall-clock times. Writers that left `writer_retention_ms` ago are forgotten.
    `expected_writers` are members from the start, before they note. A reader that is silent for
    longer than `reader_timeout_ms` goes offline. Notes and scale events add no segment beyond
    `max_segments`, and no note an offset more than `max_offset_jump` beyond the last one known of
    its segment; `None` takes any.
    """

    writer_timeout_ms: int = 60_000
    mark_interval_ms: int = 200
    returning_writer: ReturningWriter = "hold"
    domains: tuple[str, ...] = ("default",)
    mark_retention_ms: int = 7 * DAY_MS
    max_time_ahead_ms: int | None = HOUR_MS
    writer_retention_ms: int = DAY_MS
    expected_writers: tuple[str, ...] = ()
    reader_timeout_ms: int = DAY_MS
    max_segments: int = 4096
    max_offset_jump: int | None = 10**12

    def __post_init__(self) -> None:
        if not self.domains or len(set(self.domains)) != len(self.domains):
            raise Rejected(f"domains must be one or more different names, not {list(self.domains)}")
        for domain in self.domains:
            checked_name("domain", domain)
        for writer in self.expected_writers:
            checked_name("writer", writer)

    @property
    def are_unix_ms(self) -> bool:
        """Whether times are Unix ms: only then can they be compared with the wall clock."""
        return self.max_time_ahead_ms is not None

    def domain_or_default(self, domain: str | None) -> str:
        """Return `domain`; if it is not named, the one that is meant then."""
        return unnamed_domain(self.domains) if domain is None else domain
