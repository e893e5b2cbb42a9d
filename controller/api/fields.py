"""Which fields and query parameters there are, so that a mistyped one is answered with the right.

Both are read from the OpenAPI document, which pydantic and FastAPI make of the routes.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastapi import Request

    Schema = Mapping[str, Any]

COMPARED = 100
"""So many characters of an unknown name are compared with those there are."""

Where = tuple[int | str, ...]


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    """Return that there is no field or parameter of that name, and which there are.

    >>> no_such("field", "tiem", ["writer", "time"])
    "there is no such field; did you mean 'time'? There are: writer, time"
    >>> no_such("query parameter", "x", [])
    'there is no such query parameter; there are none here'
    """
    sentence = f"there is no such {kind}"
    if not known:
        return f"{sentence}; there are none here"
    near = get_close_matches(name[:COMPARED], known, n=1)
    meant = f"did you mean {near[0]!r}? There" if near else "there"
    return f"{sentence}; {meant} are: {', '.join(known)}"


def fields_of_request(request: Request, where: Where) -> list[str]:
    """Return the fields beside an unknown one at `where` in the body of a request."""
    document = request.app.openapi()
    body = _operation_of(request).get("requestBody", {}).get("content", {})
    schema = body.get("application/json", {}).get("schema", {})
    return _properties(schema, where[:-1], document["components"]["schemas"])


def parameters_of_request(request: Request) -> list[str]:
    """Return the query parameters of the route that took a request."""
    parameters = _operation_of(request).get("parameters", ())
    return [each["name"] for each in parameters if each["in"] == "query"]


def _operation_of(request: Request) -> Schema:
    wanted = request.scope["route"].operation_id
    operations = (
        operation
        for operations in request.app.openapi()["paths"].values()
        for operation in operations.values()
    )
    return next(each for each in operations if each["operationId"] == wanted)


def _properties(schema: Schema, where: Where, shapes: Schema) -> list[str]:
    """Return the properties of the object at `where`; of one of several that fit, the first's."""
    found = [*_objects(schema, shapes)]
    for part in where:
        below = [
            each["items"] if isinstance(part, int) else each.get("properties", {}).get(part, {})
            for each in found
            if not isinstance(part, int) or "items" in each
        ]
        found = [shape for each in below for shape in _objects(each, shapes)]
    return next((list(each["properties"]) for each in found if "properties" in each), [])


def _objects(schema: Schema, shapes: Schema) -> Iterator[Schema]:
    """Yield the schemas that one stands for: itself, what it refers to, its alternatives."""
    if "$ref" in schema:
        yield from _objects(shapes[schema["$ref"].rpartition("/")[2]], shapes)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _objects(each, shapes)
    else:
        yield schema
