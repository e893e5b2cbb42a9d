"""The OpenAPI document as a page for people: plain HTML, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Row = tuple[str, str, str]
    """A name, its type, and its bounds and description."""
    Schema = Mapping[str, Any]

BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "{} characters or more",
    "maxLength": "at most {} characters",
    "minItems": "{} or more",
    "maxItems": "at most {}",
    "maxProperties": "at most {}",
    "default": "by default {}",
    "description": "{}",
}
"""How the page words the keywords of a schema beside its type."""

METHODS = ("get", "put", "post", "delete")
FAILED = "400"
SHAPES = "#/components/schemas/"

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: the HTTP API</title>
<link rel="icon" href="assets/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/dashboard.css">
</head>
<body>
<header class="bar">
<a class="brand" href="."><img src="assets/favicon.svg" alt="" width="20" height="20">{title}</a>
<nav aria-label="Main"><a href=".">Streams</a><a href="docs">API</a></nav>
</header>
<main>
<div class="head"><h1>The HTTP API</h1></div>
<p>{description}</p>
<p>The same for programs: <a href="openapi.json">openapi.json</a></p>
<section aria-label="Contents">{contents}</section>
{operations}
</main>
</body>
</html>
"""


def api_page(document: Schema) -> str:
    """Return the page of an OpenAPI document; all text in it is escaped."""
    tags: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                tag = operations[method].get("tags", ["others"])[0]
                tags.setdefault(tag, []).append((method, path, operations[method]))
    shapes = document["components"]["schemas"]
    return PAGE.format(
        title=escape(document["info"]["title"]),
        description=escape(document["info"].get("description", "")),
        contents="".join(_contents(tag, found) for tag, found in tags.items()),
        operations="".join(_group(tag, found, shapes) for tag, found in tags.items()),
    )


def _contents(tag: str, found: Iterable[tuple[str, str, Schema]]) -> str:
    names = (escape(each["operationId"]) for _, _, each in found)
    links = ", ".join(f'<a href="#{name}">{name}</a>' for name in names)
    return f"<p><strong>{escape(tag)}</strong>: {links}</p>"


def _group(tag: str, found: Iterable[tuple[str, str, Schema]], shapes: Schema) -> str:
    return f'<div class="head"><h2>{escape(tag)}</h2></div>' + "".join(
        _operation(*each, shapes) for each in found
    )


def _operation(method: str, path: str, operation: Schema, shapes: Schema) -> str:
    answers = operation["responses"].items()
    problems = [f"{status} {each['description']}" for status, each in answers if status >= FAILED]
    parts = [
        f'<section id="{escape(operation["operationId"])}">',
        f"<h3><b>{method.upper()}</b> <code>{escape(path)}</code></h3>",
        f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>",
        _table(
            "Parameters", (_parameter(each, shapes) for each in operation.get("parameters", ()))
        ),
        _body("Body", operation.get("requestBody", {}), shapes),
        *(_body(f"Answer {code}", each, shapes) for code, each in answers if code < FAILED),
        f"<p>Problems: {escape('; '.join(problems) or 'none')}</p>",
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def _parameter(parameter: Schema, shapes: Schema) -> Row:
    where = f"{parameter['in']}, required" if parameter.get("required") else parameter["in"]
    schema = {"description": parameter.get("description")} | parameter["schema"]
    return parameter["name"], _type(schema, shapes), f"{where}; {_bounds(schema)}".strip("; ")


def _body(title: str, body: Schema, shapes: Schema) -> str:
    schemas = (content.get("schema", {}) for content in body.get("content", {}).values())
    return "".join(_table(title, _fields(schema, shapes)) for schema in schemas)


def _fields(
    schema: Schema, shapes: Schema, above: str = "", seen: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Yield the fields of a schema, and those of all that it refers to or contains."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(SHAPES)
        if name not in seen:
            yield from _fields(shapes[name], shapes, above, (*seen, name))
        return
    for inner in (*_alternatives(schema), *_contained(schema)):
        yield from _fields(inner, shapes, above, seen)
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        remarks = f"{'' if name in required else 'optional'}; {_bounds(field)}".strip("; ")
        yield above + name, _type(field, shapes), remarks
        yield from _fields(field, shapes, f"{above}{name}.", seen)


def _contained(schema: Schema) -> list[Schema]:
    """Return the schemas of a list's elements or an object's values, if they have one."""
    inner = (schema.get("items"), schema.get("additionalProperties"))
    patterns = schema.get("patternProperties", {}).values()
    return [each for each in (*inner, *patterns) if isinstance(each, dict)]


def _alternatives(schema: Schema) -> list[Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _type(schema: Schema, shapes: Schema) -> str:
    """Return the type of a schema in words."""
    if "$ref" in schema:
        return _type(shapes[schema["$ref"].removeprefix(SHAPES)], shapes)
    if alternatives := _alternatives(schema):
        return " or ".join(dict.fromkeys(_type(each, shapes) for each in alternatives))
    if "enum" in schema or "const" in schema:
        return " | ".join(str(each) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    of = " or ".join(_type(each, shapes) for each in _contained(schema))
    return f"{kind} of {of}" if of else str(kind)


def _bounds(schema: Schema) -> str:
    """Return the bounds of a schema and of its alternatives."""
    own = (
        form.format(schema[name]) for name, form in BOUNDS.items() if schema.get(name) is not None
    )
    inner = (_bounds(each) for each in _alternatives(schema))
    return ", ".join(dict.fromkeys(filter(None, (*own, *inner))))


def _table(title: str, rows: Iterable[Row]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(remarks)}</td></tr>"
        for name, kind, remarks in rows
    )
    if not cells:
        return ""
    names = "".join(f"<th>{name}</th>" for name in (escape(title), "type", "remarks"))
    return f"<table><tr>{names}</tr>{cells}</table>"
