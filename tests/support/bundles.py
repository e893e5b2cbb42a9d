"""Builds the values of a reader's call from flat names."""

from dataclasses import fields
from typing import Any, TypeVar

from spark_integration import Noted, WatermarkPolicy

Value = TypeVar("Value")


def take_fields(kind: type[Value], asked: dict[str, Any], **given: object) -> Value:
    """Return a value of that kind, with its fields moved from `asked`."""
    named: Any = kind
    names = {each.name for each in fields(named)} & asked.keys()
    return kind(**{**given, **{name: asked.pop(name) for name in names}})


def take_noted(asked: dict[str, Any], url: str, stream: str | None = None) -> Noted:
    """Return the `Noted` of a call, and make its `policy` one argument."""
    asked["policy"] = take_fields(WatermarkPolicy, asked)
    return take_fields(Noted, asked, url=url, stream=stream)
