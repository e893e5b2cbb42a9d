"""The settings of a stream with their defaults and bounds, and how its event times are read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args

from msgspec import Meta, Struct, structs

from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.values.errors import AnotherForm, InvalidName, Rejected
from noted_time.values.note import MOST_DOMAINS
from noted_time.values.spelling import Name
from noted_time.values.times import DAY_MS, HOUR_MS, MAX_INT64

ReturningWriter = OpenEnum["wait", "exclude"]

NAME_PATTERN = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}", re.ASCII)
"""Clients and proxies remove `.` and `..` from a path."""

DEFAULT_DOMAIN = "default"

INGESTION_NAME = "ingestion"
"""The domain of the times when rows came in, and the writer that notes them."""


def validate_name(subject: str, name: str) -> str:
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidName(subject, name)
    return name


def choose_domain(domains: Collection[str]) -> str:
    """Return the default domain: the only declared domain, or `default`.

    >>> choose_domain(["ship_time"]), choose_domain(["order_time", "ship_time"])
    ('ship_time', 'default')
    """
    if len(domains) != 1:
        return "default"
    return next(iter(domains))


def _bound(lower: int, upper: int = MAX_INT64) -> Meta:
    return Meta(ge=lower, le=upper)


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
        if domain is not None:
            return domain
        return choose_domain(self.domains)


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
    return [_describe(field) for field in structs.fields(StreamSettings)]


def _describe(setting: structs.FieldInfo) -> Setting:
    kind, *metas = get_args(setting.type)
    is_nullable = NoneType in get_args(kind)
    if is_nullable:
        kind, *inner_metas = get_args(get_args(kind)[0])
        metas += inner_metas
    facts: dict[str, Any] = {}
    for meta in metas:
        facts.update(meta.__rich_repr__())
    return Setting(
        name=setting.name,
        kind=kind,
        default=setting.default,
        is_nullable=is_nullable,
        choices=facts.get("extra_json_schema", {}).get("enum", ()),
        about=facts["description"],
        least=facts.get("ge", facts.get("min_length", 0)),
        most=facts.get("le", facts.get("max_length", MAX_INT64)),
    )


EventTimeKind = OpenEnum["instant", "local", "number", "text"]
"""Instants, timestamps or dates without a zone, numbers, or text."""

TimeUnit = OpenEnum["s", "ms", "us", "ns", "d"]

_Text = Annotated[str, Meta(min_length=1, max_length=249)]


class EventTimeForm(Struct, frozen=True, kw_only=True):
    """How the times of a column are read.

    - `column`: the column, or the path of a field in a record.
    - `kind`: the kind of its values. The other fields are null where the kind makes them needless.
    - `zone`: the zone of local times.
    - `unit`: the unit of numbers since 1970, such as `ms`.
    - `format`: the form of texts or digits, as in `strptime`. Texts without it are ISO 8601.

    >>> print(EventTimeForm(column="departed", kind="local", zone="Europe/Berlin"))
    departed as local times of Europe/Berlin
    >>> print(EventTimeForm(column="t", kind="number", unit="s"))
    t as Unix time in s
    """

    column: _Text
    kind: EventTimeKind
    zone: _Text | None = None
    unit: TimeUnit | None = None
    format: _Text | None = None

    def __str__(self) -> str:
        words = _KIND_WORDS.get(self.kind, self.kind)
        if self.unit is not None:
            words = f"{words} in {self.unit}"
        if self.format is not None:
            words = f"{words} of the format {self.format!r}"
        if self.zone is not None:
            if self.kind == "local":
                words = f"{words} of {self.zone}"
            else:
                words = f"{words} in {self.zone}"
        return f"{self.column} as {words}"

    def check(self) -> None:
        """Raise `Rejected` for fields that the kind does not have, or that it lacks.

        >>> EventTimeForm(column="t", kind="local").check()
        Traceback (most recent call last):
            ...
        noted_time.Rejected: the form of `t` is of local times, which need a zone
        """
        needless = {
            "instant": ("zone", "unit", "format"),
            "local": ("unit", "format"),
            "number": (),
            "text": (),
        }
        for name in needless.get(self.kind, ()):
            if getattr(self, name) is not None:
                raise Rejected(
                    f"the form of `{self.column}` is of kind {self.kind}: it has no {name}"
                )
        if self.kind == "local" and self.zone is None:
            raise Rejected(f"the form of `{self.column}` is of local times, which need a zone")
        if self.kind == "number" and (self.unit is None) == (self.format is None):
            raise Rejected(
                f"the form of `{self.column}` is of numbers, which need a unit or a format"
            )


_KIND_WORDS = {"instant": "instants", "local": "local times", "number": "Unix time", "text": "text"}


class StatedForm(Struct, frozen=True):
    """A form, and the first position that it holds for."""

    form: EventTimeForm
    position: Offsets


class FormSpan(NamedTuple):
    """The rows of a segment from `first` to `end` (exclusive), and their form, if one is stated."""

    first: int
    end: int
    form: EventTimeForm | None


def state_form(
    stated_forms: Sequence[StatedForm],
    form: EventTimeForm,
    position: Mapping[int, int],
    *,
    replaces: bool = False,
) -> tuple[StatedForm, ...]:
    """Return a domain's forms after one is stated again, for the first time, or in another's place.

    The first form holds for all rows. One that `replaces` another holds from a position on. Raises
    `AnotherForm` for another form that does not.

    >>> berlin = EventTimeForm(column="t", kind="local", zone="Europe/Berlin")
    >>> utc = EventTimeForm(column="t", kind="local", zone="UTC")
    >>> first = state_form((), berlin, {0: 5})
    >>> [each.position for each in state_form(first, utc, {0: 9}, replaces=True)]
    [{}, {0: 9}]
    >>> state_form(first, berlin, {0: 9}) == first
    True
    """
    form.check()
    if not stated_forms:
        return (StatedForm(form, {}),)
    last_form = stated_forms[-1]
    if last_form.form == form:
        return tuple(stated_forms)
    if not replaces:
        raise AnotherForm(str(last_form.form), str(form))
    if last_form.position == position:  # no row is read by the last form
        return (*stated_forms[:-1], StatedForm(form, last_form.position))
    return (*stated_forms, StatedForm(form, dict(position)))


def split_by_form(
    stated_forms: Sequence[StatedForm], segment: int, first: int, end: int
) -> Iterator[FormSpan]:
    """Yield the rows of a segment from `first` to `end` (exclusive), divided by their forms.

    >>> utc, berlin = (EventTimeForm(column="t", kind="local", zone=z) for z in ("UTC", "CET"))
    >>> stated = (StatedForm(utc, {}), StatedForm(berlin, {0: 5}))
    >>> [(each.first, each.end, each.form.zone) for each in split_by_form(stated, 0, 2, 8)]
    [(2, 5, 'UTC'), (5, 8, 'CET')]
    """
    start = first
    for number, stated_form in enumerate(stated_forms):
        next_form = None
        if number + 1 < len(stated_forms):
            next_form = stated_forms[number + 1]
        if next_form is None:
            stop = end
        else:
            stop = min(end, next_form.position.get(segment, 0))
        if start < stop:
            yield FormSpan(start, stop, stated_form.form)
            start = stop
    if start < end:
        yield FormSpan(start, end, None)


def find_forms(
    forms: Mapping[str, Sequence[StatedForm]], domain: str, column: str
) -> Sequence[StatedForm]:
    """Return the forms of a column, of the domain or else of another one.

    A domain of arrival times has no form, although its queries read the column, too.
    """
    names = [domain, *sorted(forms.keys() - {domain})]
    for name in names:
        stated_forms = forms.get(name, ())
        if any(stated_form.form.column == column for stated_form in stated_forms):
            return stated_forms
    return ()
