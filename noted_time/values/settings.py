"""The settings of a stream, their defaults and their bounds."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from noted_time.values.errors import InvalidName, Rejected
from noted_time.values.note import MOST_DOMAINS
from noted_time.values.times import DAY_MS, HOUR_MS, MAX_INT64

Default = TypeVar("Default")

ReturningWriter = Literal["hold", "exclude"]

NAME_PATTERN = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}", re.ASCII)
"""Clients and proxies remove `.` and `..` from a path."""

DEFAULT_DOMAIN = "default"

INGESTION_NAME = "ingestion"
"""The domain of the times when rows came in, and the writer that notes them."""


def validate_name(what: str, name: str) -> str:
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidName(what, name)
    return name


def choose_domain(declared: Collection[str]) -> str:
    """Return the default domain: the only declared domain, or `default`.

    >>> choose_domain(["ship_time"]), choose_domain(["order_time", "ship_time"])
    ('ship_time', 'default')
    """
    return next(iter(declared)) if len(declared) == 1 else "default"


def setting(default: Default, about: str, *, least: int = 0, most: int = MAX_INT64) -> Default:
    """Declare a setting for the API and the command line; bounds may be of a number or a length."""
    declared: Default = field(
        default=default, metadata={"about": about, "least": least, "most": most}
    )
    return declared


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The settings of a stream. Durations are in ms."""

    writer_timeout_ms: int = setting(
        60_000,
        "A writer that holds the watermark is excluded if it is silent for this long. Rows that it "
        "then writes below the watermark are late.",
        least=1,
    )
    mark_interval_ms: int = setting(
        200,
        "The minimum time between two marks. With a longer time, readers see progress later. "
        "With 0, every advance makes a mark.",
    )
    returning_writer: ReturningWriter = setting(  # noqa: RUF009 - the default is immutable
        "hold",
        "hold: the watermark waits for a writer that returned late until it has caught up. "
        "exclude: it does not wait, and the writer stays excluded until then.",
    )
    domains: tuple[str, ...] = setting(
        ("default",),
        "Time domains. They can be added but not removed. A new domain has no mark until "
        "every live writer has noted it.",
        least=1,
        most=MOST_DOMAINS,
    )
    mark_retention_ms: int = setting(
        7 * DAY_MS,
        "Marks that were kept this long while a controller served are dropped, except marks that "
        "an online reader still needs.",
    )
    max_time_ahead_ms: int | None = setting(
        HOUR_MS,
        "Notes are refused if they are ahead of the controller's clock by more than this. null "
        "accepts any time, for clocks that are not Unix ms.",
    )
    writer_retention_ms: int = setting(
        DAY_MS, "Writers that finished or were excluded this long ago are forgotten."
    )
    expected_writers: tuple[str, ...] = setting(
        (),
        "Members from the start. The watermark waits for them before their first note.",
        most=10_000,
    )
    reader_timeout_ms: int = setting(
        DAY_MS,
        "A reader that is silent for this long goes offline and no longer keeps marks.",
        least=1,
    )
    max_segments: int = setting(
        4096,
        "Notes and scale events that would add more segments are refused. Sealed segments "
        "below the first kept mark do not count.",
        least=1,
        most=100_000,
    )
    max_offset_jump: int | None = setting(
        10**12,
        "A note is refused if an offset exceeds the last known offset of its segment by more than "
        "this. null accepts any offset.",
        least=1,
    )

    def __post_init__(self) -> None:
        if not self.domains or len(set(self.domains)) != len(self.domains):
            raise Rejected(f"domains must be one or more different names, not {list(self.domains)}")
        for domain in self.domains:
            validate_name("domain", domain)
        for writer in self.expected_writers:
            validate_name("writer", writer)

    @property
    def are_unix_ms(self) -> bool:
        """Whether times are Unix ms and can be compared with the wall clock."""
        return self.max_time_ahead_ms is not None

    def domain_or_default(self, domain: str | None) -> str:
        """Return `domain`, or the default domain if it is `None`."""
        return choose_domain(self.domains) if domain is None else domain
