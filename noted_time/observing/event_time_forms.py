"""Converts between an observer's form of event times and its stream's."""

from __future__ import annotations

from typing import Any

from noted_time.observing.time_forms import ANY_TIME, TimeForm
from noted_time.values import EventTimeForm, EventTimeKind, parse_zone


def describe_form(column: str, kind: EventTimeKind, form: TimeForm) -> EventTimeForm:
    """Return the form as a stream keeps it, without the fields that the kind makes needless.

    >>> str(describe_form("t", "number", TimeForm("s")))
    't as Unix time in s'
    >>> str(describe_form("t", "instant", TimeForm("s")))
    't as instants'
    """
    zone = None if form.zone is None else str(form.zone)
    if kind == "instant":
        return EventTimeForm(column=column, kind=kind)
    if kind == "local":
        return EventTimeForm(column=column, kind=kind, zone=zone)
    if form.format is not None:
        return EventTimeForm(column=column, kind=kind, zone=zone, format=form.format)
    unit = form.unit or "ms"
    if kind == "number":
        zone = zone if unit == "d" else None
        return EventTimeForm(column=column, kind=kind, zone=zone, unit=unit)
    return EventTimeForm(column=column, kind=kind, zone=zone, unit=None if unit == "ms" else unit)


def build_time_form(form: EventTimeForm) -> TimeForm:
    """Return an observer's form, which also accepts times outside 1971 to 2199.

    Raises `Unreadable` if its zone is unknown here.
    """
    zone = None if form.zone is None else parse_zone(form.zone)
    unit: Any = form.unit or "ms"
    return TimeForm(unit, zone, form.format, bounds=ANY_TIME)
