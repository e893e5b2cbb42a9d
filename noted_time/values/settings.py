"""The settings of a stream, their defaults and their bounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args

from msgspec import Meta, Struct, structs

from noted_time.open_enum import OpenEnum
from noted_time.values.errors import InvalidName, Rejected
from noted_time.values.note import MOST_DOMAINS
from noted_time.values.spelling import Name
from noted_time.values.times import DAY_MS, HOUR_MS, MAX_INT64

ReturningWriter = OpenEnum["wait", "exclude"]

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


def _bound(least: int, most: int = MAX_INT64) -> Meta:
    return Meta(ge=least, le=most)


Duration = Annotated[int, _bound(0)]
PositiveDuration = Annotated[int, _bound(1)]
ALL_DIFFERENT = Meta(extra_json_schema={"uniqueItems": True})


class StreamSettings(Struct, frozen=True):
    """The settings of a stream. Durations are in ms."""

    writer_timeout_ms: Annotated[
        PositiveDuration,
        Meta(
            description="A writer that holds back the watermark is excluded if it is silent for "
            "this long. Rows that it then writes below the watermark are late."
        ),
    ] = 60_000
    mark_interval_ms: Annotated[
        Duration,
        Meta(
            description="The minimum time between two marks. With a longer time, readers see "
            "progress later. With 0, every advance makes a mark."
        ),
    ] = 200
    returning_writer: Annotated[
        ReturningWriter,
        Meta(
            description="wait: the watermark waits for a writer that returned below it until it "
            "has caught up. exclude: it does not wait, and the writer stays excluded until "
            "then."
        ),
    ] = "wait"
    domains: Annotated[
        Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_DOMAINS), ALL_DIFFERENT],
        Meta(
            description="Time domains. They can be added but not removed. A new domain has no mark "
            "until every live writer has noted it."
        ),
    ] = ("default",)
    mark_retention_ms: Annotated[
        Duration,
        Meta(
            description="Marks that were kept this long while a controller served are dropped, "
            "except marks that an online reader still needs."
        ),
    ] = 7 * DAY_MS
    max_time_ahead_ms: Annotated[
        Duration | None,
        Meta(
            description="Notes are refused if they are ahead of the controller's clock by more "
            "than this. null accepts any time, for clocks that are not Unix ms."
        ),
    ] = HOUR_MS
    writer_retention_ms: Annotated[
        Duration,
        Meta(description="Writers that finished or were excluded this long ago are forgotten."),
    ] = DAY_MS
    expected_writers: Annotated[
        Annotated[tuple[Name, ...], Meta(max_length=10_000), ALL_DIFFERENT],
        Meta(
            description="Members from the start. The watermark waits for them before their first "
            "note."
        ),
    ] = ()
    reader_timeout_ms: Annotated[
        PositiveDuration,
        Meta(
            description="A reader that is silent for this long goes offline and no longer keeps "
            "marks."
        ),
    ] = DAY_MS
    max_segments: Annotated[
        Annotated[int, _bound(1, 100_000)],
        Meta(
            description="Notes and scale events that would add more segments are refused. Sealed "
            "segments below the first kept mark do not count."
        ),
    ] = 4096
    max_offset_jump: Annotated[
        Annotated[int, _bound(1)] | None,
        Meta(
            description="A note is refused if an offset exceeds the last known offset of its "
            "segment by more than this. null accepts any offset."
        ),
    ] = 10**12

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


class Setting(NamedTuple):
    """A setting, with the bounds of its number, or of the length of its list.

    >>> [(each.name, each.least, each.most) for each in list_settings()][9]
    ('max_segments', 1, 100000)
    """

    name: str
    kind: Any
    default: Any
    is_nullable: bool
    choices: Sequence[str]
    about: str
    least: int
    most: int


@cache
def list_settings() -> Sequence[Setting]:
    return [_describe(each) for each in structs.fields(StreamSettings)]


def _describe(field: structs.FieldInfo) -> Setting:
    kind, *metas = get_args(field.type)
    is_nullable = NoneType in get_args(kind)
    if is_nullable:
        kind, *inner = get_args(get_args(kind)[0])
        metas += inner
    found = {name: value for each in metas for name, value in each.__rich_repr__()}
    least = found.get("ge", found.get("min_length", 0))
    most = found.get("le", found.get("max_length", MAX_INT64))
    choices = found.get("extra_json_schema", {}).get("enum", ())
    return Setting(
        field.name, kind, field.default, is_nullable, choices, found["description"], least, most
    )
