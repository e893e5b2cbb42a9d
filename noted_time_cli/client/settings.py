"""The settings of a stream: an option for each that `StreamSettings` declares, and their text."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from inspect import Parameter, Signature
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

from noted_time import Rejected, StreamSettings
from noted_time.values import format_duration, parse_duration
from noted_time_cli.terminal.options import NO_VALUES, option

if TYPE_CHECKING:
    from noted_time.client import Json

HINTS = get_type_hints(StreamSettings)


def shown_setting(name: str, value: object) -> str:
    """Return a setting as people read it.

    >>> shown_setting("writer_timeout_ms", 5_400_000), shown_setting("domains", ["a", "b"])
    ('1h 30m', 'a, b')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    return "none" if value is None else str(value)


def _form(name: str) -> str:
    """Return how help writes the values of a setting.

    >>> [_form(name) for name in ("max_time_ahead_ms", "max_segments", "returning_writer")]
    ['DURATION', 'NUMBER', 'hold|exclude']
    """
    kind, parts = get_origin(HINTS[name]), get_args(HINTS[name])
    if name.endswith("_ms"):
        return "DURATION"
    if int in {HINTS[name], *parts}:
        return "NUMBER"
    return "NAME" if kind is tuple else "|".join(parts) if kind is Literal else "TEXT"


def _flag(each: Field[Any]) -> Parameter:
    """Return the option of a setting."""
    form, name, unset = _form(each.name), each.name.removesuffix("_ms"), None
    kind: Any = HINTS[each.name] | None if get_origin(HINTS[each.name]) is Literal else str | None
    text = each.metadata["about"].replace("null", "`none`")
    if form == "NAME":
        name, kind, unset = name.removesuffix("s"), list[str], NO_VALUES
        text += " Several may be given."
    default = shown_setting(each.name, each.default) if each.default else False
    taken = option(form, text, default=default)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=unset, annotation=Annotated[kind, taken])


def _read(name: str, typed: Any) -> object:  # noqa: ANN401 - text, or a list of names
    if typed == "none":
        return None
    form = _form(name)
    if form == "NUMBER" and not typed.isdecimal():
        raise Rejected(f"{typed[:40]!r} is neither a whole number nor none")
    return (
        parse_duration(typed) if form == "DURATION" else int(typed) if form == "NUMBER" else typed
    )


FLAGS = {each.name: _flag(each) for each in fields(StreamSettings)}


@dataclass(init=False)
class GivenSettings:
    """The settings that are given by options, as the API takes them."""

    sent: Json
    __signature__: ClassVar = Signature([*FLAGS.values()])

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - as its signature's
        """Read the options that are given; raises `Rejected` and `Unreadable`."""
        typed = ((name, given[flag.name]) for name, flag in FLAGS.items())
        self.sent = {name: _read(name, value) for name, value in typed if value}
