"""How the times of an event-time column are read, as the stream keeps it for all its readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.values.errors import AnotherForm, Rejected

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
            words = f"{words} of {self.zone}" if self.kind == "local" else f"{words} in {self.zone}"
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
    stated: Sequence[StatedForm],
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
    if not stated:
        return (StatedForm(form, {}),)
    last = stated[-1]
    if last.form == form:
        return tuple(stated)
    if not replaces:
        raise AnotherForm(str(last.form), str(form))
    if last.position == position:  # no row is read by the last form
        return (*stated[:-1], StatedForm(form, position))
    return (*stated, StatedForm(form, dict(position)))


def split_by_form(
    stated: Sequence[StatedForm], segment: int, first: int, end: int
) -> Iterator[FormSpan]:
    """Yield the rows of a segment from `first` to `end` (exclusive), divided by their forms.

    >>> utc, berlin = (EventTimeForm(column="t", kind="local", zone=z) for z in ("UTC", "CET"))
    >>> stated = (StatedForm(utc, {}), StatedForm(berlin, {0: 5}))
    >>> [(each.first, each.end, each.form.zone) for each in split_by_form(stated, 0, 2, 8)]
    [(2, 5, 'UTC'), (5, 8, 'CET')]
    """
    start = first
    for number, each in enumerate(stated):
        following = stated[number + 1] if number + 1 < len(stated) else None
        stop = end if following is None else min(end, following.position.get(segment, 0))
        if start < stop:
            yield FormSpan(start, stop, each.form)
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
        stated = forms.get(name, ())
        if any(each.form.column == column for each in stated):
            return stated
    return ()
