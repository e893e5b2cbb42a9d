"""Types of fields in answers that msgspec cannot describe or decode by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

__all__ = ["OFFSETS_SCHEMA", "SCHEMA_REF", "SEGMENT_PATTERN", "AnyOf", "Offsets"]

SCHEMA_REF = "#/components/schemas/{name}"  # in an OpenAPI document

SEGMENT_PATTERN = r"^(0|[1-9][0-9]{0,17})$"

OFFSETS_SCHEMA = {
    "type": "object",
    "description": "segment → exclusive offset; a missing segment means 0",
    "patternProperties": {SEGMENT_PATTERN: {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}},
}

Offsets = Annotated[Mapping[int, int], msgspec.Meta(extra_json_schema=OFFSETS_SCHEMA)]

if TYPE_CHECKING:
    from typing import Union as AnyOf
else:

    class AnyOf:
        """A union with several kinds of objects, which is decoded as any JSON."""

        def __class_getitem__(cls, kinds: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as in `Union`
            schemas, _ = msgspec.json.schema_components(kinds, ref_template=SCHEMA_REF)
            return Annotated[Any, msgspec.Meta(extra_json_schema={"anyOf": list(schemas)})]
