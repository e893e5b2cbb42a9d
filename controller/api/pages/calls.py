"""Writes the page of the HTTP calls from the OpenAPI document, for a browser without JavaScript.

An element is made from values and never from markup, so no text of the document is markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, tostring

Schema = dict[str, Any]
Part = Element | str | None

JSON = "application/json"
SCHEMA_PREFIX = "#/components/schemas/"
MAXIMUM_DEPTH = 2
"""How many objects deep the fields of a body are listed."""

EXAMPLE_NAMES = {"stream": "flights", "writer": "UA", "group": "billing", "reader": "billing-0"}
"""The names in the commands; the examples of the bodies have them, too."""

EXAMPLE_TIME = 1_357_034_220_000

PARAMETER_IN_PATH = re.compile(r"\{(\w+)\}")


class Row(NamedTuple):
    """A parameter of a call, or a field of its body."""

    name: str
    place: str
    type: str
    meaning: str


class Call(NamedTuple):
    """A method of a path, with its part of the OpenAPI document."""

    method: str
    path: str
    operation: Mapping[str, Any]

    @property
    def body(self) -> Mapping[str, Any] | None:
        content: Mapping[str, Any] = self.operation.get("requestBody", {}).get("content", {})
        return content.get(JSON)

    def needs_token(self, document: Mapping[str, Any]) -> bool:
        """Return whether the controller refuses this call without a token."""
        security: list[Schema] = self.operation.get("security", document["security"])
        return bool(security) and {} not in security


def build_element(tag: str, *parts: Part, **attributes: str) -> Element:
    """Return an element with its parts. `class_` becomes `class`, and `aria_label` `aria-label`.

    >>> tostring(build_element("p", "a < b ", build_element("b", "c"), class_="soft"))
    b'<p class="soft">a &lt; b <b>c</b></p>'
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    element = Element(tag, {names[name]: value for name, value in attributes.items()})
    last_child = None
    for part in parts:
        if isinstance(part, Element):
            element.append(part)
            last_child = part
        elif part is not None and last_child is not None:
            last_child.tail = (last_child.tail or "") + part
        elif part is not None:
            element.text = (element.text or "") + part
    return element


def write_page(document: Mapping[str, Any], assets_path: str, url: str) -> str:
    """Return the page of the calls of an OpenAPI document, for a controller that answers at `url`.

    Its files are below `assets_path`, which is relative, because a proxy may add a path.
    """
    body = _build_body(document, assets_path, url)
    page = build_element("html", _build_head(assets_path), body, lang="en")
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html")


def _build_head(assets_path: str) -> Element:
    return build_element(
        "head",
        build_element("meta", charset="utf-8"),
        build_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        build_element("title", "HTTP API · noted-time"),
        build_element("link", rel="icon", href=f"{assets_path}favicon.svg"),
        build_element("link", rel="stylesheet", href=f"{assets_path}dashboard.css"),
    )


def _build_body(document: Mapping[str, Any], assets_path: str, url: str) -> Element:
    calls_by_tag = _group_by_tag(document)
    sections = [_describe_call(call, document) for call in chain(*calls_by_tag.values())]
    logo = build_element("img", src=f"{assets_path}favicon.svg", alt="", width="20", height="20")
    bar = build_element(
        "header",
        build_element("a", logo, "noted-time", href="./", class_="brand"),
        build_element(
            "nav",
            build_element("a", "Streams", href="./"),
            build_element("a", "API", href="docs", aria_current="page"),
            aria_label="Main",
        ),
        class_="bar",
    )
    main = build_element(
        "main",
        build_element("div", build_element("h1", "HTTP API"), class_="head"),
        *_introduce(document, url),
        *(_list_calls(tag, calls) for tag, calls in calls_by_tag.items()),
        *sections,
        id="main",
        class_="calls",
    )
    skip = build_element("a", "Skip to the content", href="#main", class_="skip")
    return build_element("body", skip, bar, main)


def _introduce(document: Mapping[str, Any], url: str) -> Iterator[Element]:
    yield build_element("p", *_mark_code(" ".join(document["info"]["description"].split())))
    yield build_element(
        "p",
        "All schemas are in ",
        build_element("a", "openapi.json", href="openapi.json"),
        ". The commands below use these variables:",
    )
    lines = [f"export NOTED_TIME_URL={url}"]
    if {} not in document["security"]:
        lines.append("export TOKEN=nt_…  # its scope has to allow the call")
    yield _build_code("\n".join(lines))


def _group_by_tag(document: Mapping[str, Any]) -> dict[str, list[Call]]:
    calls_by_tag: dict[str, list[Call]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            call = Call(method.upper(), path, operation)
            calls_by_tag.setdefault(operation["tags"][0], []).append(call)
    return calls_by_tag


def _list_calls(tag: str, calls: list[Call]) -> Element:
    links = [
        build_element(
            "li",
            build_element(
                "a", f"{call.method} {call.path}", href=f"#{call.operation['operationId']}"
            ),
            " ",
            *_mark_code(call.operation["summary"]),
        )
        for call in calls
    ]
    label = tag.capitalize()
    return build_element(
        "nav", build_element("h2", label), build_element("ul", *links), aria_label=label
    )


def _describe_call(call: Call, document: Mapping[str, Any]) -> Element:
    """Return the section of a call: method and path, sentences, a command, and parameters."""
    summary = str(call.operation["summary"])
    paragraphs = re.split(r"\n\s*\n", call.operation["description"])
    rows = [*_list_parameters(call), *_list_fields(call, document)]
    return build_element(
        "section",
        build_element("h2", build_element("code", f"{call.method} {call.path}")),
        *(build_element("p", *_mark_code(" ".join(text.split()))) for text in paragraphs),
        _build_code(write_command(call, is_token_needed=call.needs_token(document))),
        _build_table(rows, summary) if rows else None,
        id=str(call.operation["operationId"]),
        aria_label=summary,
    )


def _list_parameters(call: Call) -> Iterator[Row]:
    for parameter in call.operation.get("parameters", []):
        meaning = parameter.get("description", "")
        place = parameter["in"]
        if parameter.get("required"):
            place += ", required"
        yield Row(parameter["name"], place, describe_type(parameter["schema"]), meaning)


def _list_fields(call: Call, document: Mapping[str, Any]) -> Iterator[Row]:
    if call.body:
        yield from _list_properties(call.body["schema"], document["components"]["schemas"], "")


def _list_properties(
    schema: Schema, schemas: Mapping[str, Schema], prefix: str, depth: int = 0
) -> Iterator[Row]:
    """Yield the fields of the object that a schema names, and of the objects in its lists."""
    name = _find_name(schema)
    if name is None or depth == MAXIMUM_DEPTH:
        return
    required_names = schemas[name].get("required", [])
    for field, field_schema in schemas[name].get("properties", {}).items():
        place = "body, required" if field in required_names else "body"
        meaning = field_schema.get("description", "")
        yield Row(f"{prefix}{field}", place, describe_type(field_schema), meaning)
        if "items" in field_schema:
            yield from _list_properties(
                field_schema["items"], schemas, f"{prefix}{field}[].", depth + 1
            )


def _find_name(schema: Schema) -> str | None:
    """Return the name of the schema that a schema refers to, possibly beside null."""
    for choice in schema.get("anyOf", [schema]):
        if "$ref" in choice:
            return str(choice["$ref"]).removeprefix(SCHEMA_PREFIX)
    return None


def describe_type(schema: Schema) -> str:
    """Return the type of a schema in words.

    >>> describe_type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of string, or null'
    >>> describe_type({"type": "string", "enum": ["wait", "exclude"]})
    'wait, or exclude'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMA_PREFIX)
    if "anyOf" in schema:
        return ", or ".join(map(describe_type, schema["anyOf"]))
    if "enum" in schema:
        return ", or ".join(map(str, schema["enum"]))
    if "items" in schema:
        return f"list of {describe_type(schema['items'])}"
    return str(schema.get("type", "any value"))


def write_command(call: Call, *, is_token_needed: bool) -> str:
    """Return the command that makes a call, with names from the examples."""
    path = PARAMETER_IN_PATH.sub(
        lambda match: quote(EXAMPLE_NAMES.get(match[1], match[1])), call.path
    )
    for parameter in call.operation.get("parameters", []):
        if parameter["in"] == "query" and parameter.get("required"):
            path += f"?{parameter['name']}={EXAMPLE_TIME}"
    has_body = call.body is not None
    words = ["curl"]
    if call.method != ("POST" if has_body else "GET"):
        words += ["-X", call.method]
    if is_token_needed:
        words += ["-H", '"Authorization: Bearer $TOKEN"']
    words.append(f'"$NOTED_TIME_URL{path}"')
    if call.body:
        words += ["--json", f"'{json.dumps(call.body['example'])}'"]
    return " ".join(words)


def _build_table(rows: list[Row], label: str) -> Element:
    heads = ("Name", "Where", "Type", "Meaning")
    head = build_element("tr", *(build_element("th", name, scope="col") for name in heads))
    body = [
        build_element(
            "tr",
            build_element("td", build_element("code", row.name), data_label="Name"),
            build_element("td", row.place, data_label="Where"),
            build_element("td", row.type, data_label="Type"),
            build_element("td", *_mark_code(row.meaning), data_label="Meaning", class_="row"),
        )
        for row in rows
    ]
    table = build_element(
        "table",
        build_element("thead", head),
        build_element("tbody", *body),
        class_="stack",
        aria_label=f"Parameters: {label}",
    )
    return build_element("div", table, class_="wide")


def _mark_code(text: str) -> list[Part]:
    """Return the parts of a text, with an element for each part between backticks."""
    parts: list[Part] = []
    for place, part in enumerate(text.split("`")):
        is_code = place % 2 == 1
        parts.append(build_element("code", part) if is_code else part)
    return parts


def _build_code(text: str) -> Element:
    return build_element("pre", build_element("code", text), tabindex="0")
