"""Writes the page of all HTTP calls from the OpenAPI document of a controller."""

from __future__ import annotations

import json
import re
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from controller.api.app import create_api
from controller.service.controller import Controller
from controller.store.migrate import migrate
from controller.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = dict[str, Any]

BEGIN = """# HTTP calls

This page has all calls, parameters and fields. A controller serves the same as `/docs` and
`/openapi.json`.
[The HTTP API](api.md) explains them with examples.
"""

JSON = "application/json"


def list_lines() -> Iterator[str]:
    """Yield the lines of the page."""
    with TemporaryDirectory() as scratch:
        url = f"sqlite:///{scratch}/empty.db"
        migrate(url)
        store = open_store(url)
        document = create_api(Controller(store)).openapi()
        store.close()
    shapes = document["components"]["schemas"]
    yield BEGIN
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"## {operation['summary']}\n\n`{method.upper()} {path}`\n"
            _, *rest = re.split(r"\.\s", operation["description"], maxsplit=1)  # after the summary
            for line in rest:
                yield f"{line}\n"
            yield from list_parameters(operation.get("parameters", []))
            body = operation.get("requestBody", {}).get("content", {}).get(JSON)
            if body:
                yield f"Body: {link(body['schema'])}, such as\n"
                yield f"```json\n{json.dumps(body['example'])}\n```\n"
            answer = operation["responses"].get("200", {}).get("content", {}).get(JSON)
            if answer:
                yield f"Answer: {link(answer['schema'])}\n"
    for name in sorted(shapes):
        # a search lists the sections first that begin with its word: those of the glossary
        yield f"## JSON {name} {{ #{name.lower()} }}\n\n{shapes[name].get('description', '')}\n"
        yield from list_rows("field", shapes[name].get("properties", {}))


def list_parameters(parameters: list[Schema]) -> Iterator[str]:
    parameters_by_name = {}
    for parameter in parameters:
        parameters_by_name[parameter["name"]] = parameter["schema"] | parameter
    yield from list_rows("parameter", parameters_by_name)


def list_rows(head: str, schemas: Mapping[str, Schema]) -> Iterator[str]:
    """Yield a table of the schemas, if there are any."""
    if schemas:
        yield f"| {head} | type | meaning |\n|---|---|---|"
        for name, schema in schemas.items():
            meaning = " ".join(schema.get("description", "").split()).replace("|", r"\|")
            yield f"| `{name}` | {link(schema.get('schema', schema))} | {meaning} |"
        yield ""


def link(schema: Schema) -> str:
    """Return the type of a schema, with a link if it has a section.

    >>> link({"type": "array", "items": {"$ref": "#/components/schemas/Mark"}})
    'list of [Mark](#mark)'
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(link(choice) for choice in schema["anyOf"])
    if "items" in schema:
        return f"list of {link(schema['items'])}"
    return str(schema.get("type", "any value"))
