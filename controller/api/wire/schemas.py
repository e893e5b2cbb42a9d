"""The schemas of requests and answers in the OpenAPI document."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import msgspec

from controller.api.wire.problems import Responses
from controller.api.wire.requests import list_bodies
from noted_time import CompleteWindow, StreamCut, TimeWindow
from noted_time.answers import (
    group_answers,
    mark_answers,
    note_answers,
    overviews,
    stream_answers,
    writer_answers,
)
from noted_time.json_types import OFFSETS_SCHEMA, SCHEMA_REF
from noted_time.values import MAX_INT64
from noted_time.verdict import Completeness

Schema = dict[str, Any]

# generated clients use this name
SCHEMA_NAMES = {CompleteWindow.__name__: "CompleteWindowAnswer"}

# OpenAPI omits a docstring's text from here on.
FOR_READERS_OF_CODE = re.compile(r"\n\n(?=Raises|[^\n]*:\n\n>>>|>>>)")

SCHEMA_REFERENCE = re.compile(SCHEMA_REF.format(name=r"(\w+)"))

ANSWER_MODULES = (
    group_answers,
    mark_answers,
    note_answers,
    overviews,
    stream_answers,
    writer_answers,
)


def list_answer_structs() -> dict[str, type[msgspec.Struct]]:
    """Return the structs that the modules of answers declare or import for fields, by name."""
    structs: dict[str, type[msgspec.Struct]] = {}
    for module in ANSWER_MODULES:
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                structs[name] = kind
    structs[Completeness.__name__] = Completeness
    return structs


ANSWER_STRUCTS = list_answer_structs()


def declare(*kinds: type[Any]) -> Responses:
    """Return the response of a route with status 200, whose schemas `add_schemas` adds.

    >>> content = declare(CompleteWindow)[200]["content"]
    >>> content["application/json"]["schema"]["$ref"]
    '#/components/schemas/CompleteWindow'
    """
    schemas = [{"$ref": SCHEMA_REF.format(name=kind.__name__)} for kind in kinds]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {200: {"content": {"application/json": {"schema": schema}}}}


def add_schemas(document: Schema) -> Schema:
    """Return the document with the schemas of requests and answers, and with bounds as integers.

    FastAPI writes every bound as a float, which cannot hold the largest int64.
    """
    _, components = msgspec.json.schema_components(
        ANSWER_STRUCTS.values(), schema_hook=_describe_cut, ref_template=SCHEMA_REF
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _, bodies = msgspec.json.schema_components(list_bodies(), ref_template=SCHEMA_REF)
    for name, body in bodies.items():
        schemas[name] = body | {"description": cleandoc(body["description"])}
    used_names = set(SCHEMA_REFERENCE.findall(str((document, components))))
    schemas |= {
        name: _complete(name, components[name]) for name in components if name in used_names
    }
    problem = schemas["Problem"]
    answer = schemas["NotesAnswer"]
    schemas["NotesRefused"] = problem | {
        "title": "NotesRefused",
        "description": "The problem `notes_refused`: no note of the request was accepted.",
        "properties": problem["properties"] | answer["properties"],
        "required": problem["required"] + answer["required"],
    }
    for name, new_name in SCHEMA_NAMES.items():
        schemas[new_name] = schemas.pop(name) | {"title": new_name}
    refined_document: Schema = _refine(document)
    return refined_document


def _describe_cut(kind: type[Any]) -> Schema:
    if kind is not StreamCut:
        raise NotImplementedError
    return OFFSETS_SCHEMA


def _complete(name: str, schema: Schema) -> Schema:
    """Make all fields required that an answer never omits."""
    text = FOR_READERS_OF_CODE.split(cleandoc(schema["description"]))[0]
    if name == TimeWindow.__name__:  # a tuple whose JSON is an object
        properties = dict(zip(TimeWindow._fields, schema.pop("prefixItems"), strict=True))
        members = {"properties": properties, "required": [*properties]}
        schema = {"title": name, "type": "object", **members}
    kind = ANSWER_STRUCTS.get(name)
    if kind is None or not kind.__struct_config__.omit_defaults:
        required_names = schema.get("required", ())
        fields = schema["properties"]
        # an unset field, which is omitted, has no default
        schema["required"] = [
            field for field in fields if field in required_names or "default" in fields[field]
        ]
        for field_schema in fields.values():
            field_schema.pop("default", None)
    return schema | {"description": text}


def _refine(part: Any) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(part, dict):
        is_closed = {"additionalProperties": False} if "patternProperties" in part else {}
        return {name: _refine(value) for name, value in part.items()} | is_closed
    if isinstance(part, list):
        return [_refine(value) for value in part]
    if isinstance(part, float) and part.is_integer():
        return min(int(part), MAX_INT64)
    reference = None
    if isinstance(part, str):
        reference = SCHEMA_REFERENCE.fullmatch(part)
    if reference is None:
        return part
    name = reference[1]
    return SCHEMA_REF.format(name=SCHEMA_NAMES.get(name, name))
