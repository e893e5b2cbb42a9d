"""Builds the values of a reader's call from flat names."""

from dataclasses import fields
from typing import Any, TypeVar

from spark_integration import Noted, WatermarkPolicy

Value = TypeVar("Value")


def take_fields(kind: type[Value], options: dict[str, Any], **defaults: object) -> Value:
    """Return a value of that kind, with its fields moved from `options`."""
    dataclass_kind: Any = kind
    names = {field.name for field in fields(dataclass_kind)} & options.keys()
    return kind(**{**defaults, **{name: options.pop(name) for name in names}})


def take_noted(options: dict[str, Any], url: str, stream: str | None = None) -> Noted:
    """Return the `Noted` of a call, and make its `policy` one argument."""
    options["policy"] = take_fields(WatermarkPolicy, options)
    return take_fields(Noted, options, controller=url, stream=stream)
