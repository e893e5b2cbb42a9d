"""The fields of a value in JSON."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, get_type_hints

from msgspec import Struct, structs


class JsonField(NamedTuple):
    """A field of a JSON object. An optional one is omitted if it is null."""

    name: str
    attribute: str
    hint: Any
    is_optional: bool = False


@cache
def list_fields(kind: Any) -> tuple[JsonField, ...]:  # noqa: ANN401 - a class
    """Return the fields of a value's JSON object, in order.

    >>> from noted_time import CompleteWindow
    >>> [(each.name, each.attribute) for each in list_fields(CompleteWindow)][2:9:6]
    [('from', 'from_cut'), ('missing', 'missing_writers')]
    """
    hints = get_type_hints(kind, include_extras=True)
    if not issubclass(kind, Struct):
        return tuple(JsonField(name, name, hint) for name, hint in hints.items())
    return tuple(
        JsonField(
            each.encode_name,
            each.name,
            hints[each.name],
            kind.__struct_config__.omit_defaults and not each.required,
        )
        for each in structs.fields(kind)
    )
