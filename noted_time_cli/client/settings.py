"""The settings of a stream: one option for each field of `StreamSettings`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_origin

from noted_time.values import UNITS_MS, Setting, Unreadable, format_duration, list_settings
from noted_time_cli.terminal.options import NO_VALUES, option, parse_bounded_duration, parse_name

if TYPE_CHECKING:
    from noted_time.client import Json


def format_setting(name: str, value: object) -> str:
    """Format the value of a setting.

    >>> format_setting("writer_timeout_ms", 5_400_000), format_setting("domains", ["a", "b"])
    ('1h 30m', 'a, b')
    """
    if isinstance(value, list | tuple):
        return ", ".join(str(element) for element in value) or "-"
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    return "none" if value is None else str(value)


def _get_form(setting: Setting) -> str:
    if setting.name.endswith("_ms"):
        return "DURATION"
    if setting.kind is int:
        return "NUMBER"
    if get_origin(setting.kind) is tuple:
        return "NAME"
    return "|".join(setting.choices) or "TEXT"


def _format_default(name: str, value: object) -> str:
    """Format a default for help.

    >>> _format_default("max_offset_jump", 10**12), _format_default("max_segments", 4096)
    ('10^12', '4096')
    """
    text = format_setting(name, value)
    if re.fullmatch("10{6,}", text):
        return f"10^{len(text) - 1}"
    return text


def _make_parser(setting: Setting) -> Callable[[str], object] | None:
    """Make a parser that does not change the text `none`. A text that is free needs none."""
    form = _get_form(setting)
    minimum = setting.least
    maximum = setting.most
    if form not in {"DURATION", "NUMBER", "NAME"}:
        return None

    def parse(text: str) -> object:
        if text == "none" and setting.is_nullable:
            return text
        if form == "DURATION":
            return parse_bounded_duration(text, minimum)
        if form == "NAME":
            return parse_name(text)
        if not (text.isdecimal() and minimum <= int(text) <= maximum):
            raise Unreadable(f"must be a number from {minimum} to {maximum}, not {text[:40]!r}")
        return int(text)

    return parse


def _make_flag(setting: Setting) -> Parameter:
    form = _get_form(setting)
    name = setting.name.removesuffix("_ms")
    kind: Any = str | None
    default_value: Any = None
    help_text = setting.about.replace("null", "`none`")
    if form == "NAME":
        name = name.removesuffix("s")
        kind = list[str]
        default_value = NO_VALUES
        help_text += " Repeatable."
    elif setting.choices:
        kind = Literal[tuple(setting.choices)] | None
    shown_default: str | bool = False
    if setting.default:
        shown_default = _format_default(setting.name, setting.default)
    flag = option(form, help_text, default=shown_default, parse=_make_parser(setting))
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default_value, annotation=Annotated[kind, flag]
    )


SETTING_FLAGS = {setting.name: _make_flag(setting) for setting in list_settings()}


def spell_option(name: str, value: Any) -> str:  # noqa: ANN401 - any setting
    """Return the option that sets a setting to a value.

    >>> spell_option("writer_timeout_ms", 5_400_000), spell_option("domains", ["a", "b"])
    ('--writer-timeout 90m', '--domain a --domain b')
    """
    option = f"--{SETTING_FLAGS[name].name.replace('_', '-')}"
    if isinstance(value, list):
        return " ".join(f"{option} {element}" for element in value)
    if name.endswith("_ms") and value:
        unit = next(unit for unit, size_ms in UNITS_MS.items() if value % size_ms == 0)
        return f"{option} {value // UNITS_MS[unit]}{unit}"
    return f"{option} {format_setting(name, value)}"


@dataclass(init=False)
class GivenSettings:
    """The settings given by options, in the form of the API."""

    sent: Json
    __signature__: ClassVar = Signature([*SETTING_FLAGS.values()])

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - as its signature's
        self.sent = {}
        for name, flag in SETTING_FLAGS.items():
            value = values[flag.name]
            if value not in (None, []):
                self.sent[name] = None if value == "none" else value
