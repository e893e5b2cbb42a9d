"""Rename the answers that were recorded before, and show where the answers of now differ.

`python -m tests.trials.record --texts DIRECTORY` writes all answers, of this tree or of an older
one. Run `python -m tools.renames.judge OLD NEW` over both directories. The rules are in
`rules.toml`. The schemas of OpenAPI say what an answer is, so a field is renamed only in its own
struct. Answers are compared as values. With `--texts`, both are directories of texts, such as the
transcripts of commands, and acts are compared line by line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from controller.api.app import create_api
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from tools.trials.memory_store import MemoryStore

Json = Any
Rule = Mapping[str, Any]

RULES: Mapping[str, list[Rule]] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text())
CLAIM = "Claim"
"""The struct of the records in a table's commits, which OpenAPI does not have."""

UNTYPED_STRUCTS = {
    "backlog": "BacklogPolicy",
    "old_values": "SuspensionChange",
    "new_values": "SuspensionChange",
}
"""The structs of values that a change has as plain JSON, by their keys."""

SHOWN = 3
"""How many differences of a kind are printed."""

KEY = re.compile(r'"([a-z_]+)":')


class Exchange(NamedTuple):
    """A request and its answer. A body and an answer are text or JSON."""

    method: str
    path: str
    body: Json
    status: str
    answer: Json


class Renames:
    """Renames requests, answers and sentences by the rules, and by an OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._paths = document["paths"]
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]

    def rename_exchange(self, text: str) -> Json:
        """Return a request and its answer, as `record.Console.call` writes them, or a command."""
        exchange = split_exchange(text)
        operation = self._find_operation(exchange.method, exchange.path)
        if operation is None:
            return self.rename_text(text)
        body_schema = find_schema(operation.get("requestBody", {}))
        answer_schema = find_schema(operation["responses"].get(exchange.status, {}))
        return exchange._replace(
            path=rename_path(exchange.path),
            body=self._rename(exchange.body, body_schema, ""),
            answer=self._rename(exchange.answer, answer_schema, ""),
        )

    def rename_text(self, text: str) -> Json:
        """Rename a command's output, whose lines may be records of claims."""
        lines = []
        for line in text.splitlines():
            is_record = line.startswith("{")
            lines.append(self._rename_record(json.loads(line)) if is_record else rename_line(line))
        return lines

    def _find_operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        parts = ["v1", "streams", *path.partition("?")[0].split("/")]
        for template, operations in self._paths.items():
            names = template.strip("/").split("/")
            is_same = len(names) == len(parts) and all(
                name.startswith("{") or name == rename_path(f"/writers/x/{part}").split("/")[-1]
                for name, part in zip(names, parts, strict=True)
            )
            if is_same and method.lower() in operations:
                operation: Mapping[str, Any] = operations[method.lower()]
                return operation
        return None

    def _rename_record(self, record: Json) -> Json:
        """Rename what `claim show` prints: records of claims by their names."""
        claims = record.get("claims", record) if isinstance(record, dict) else {}
        if not isinstance(claims, dict):
            return record
        renamed_claims = {}
        for name, claim in claims.items():
            if isinstance(claim, dict):
                renamed_claims[name] = rename_fields(CLAIM, claim)
            else:
                renamed_claims[name] = claim
        return {**record, "claims": renamed_claims} if "claims" in record else renamed_claims

    def _rename(self, value: Json, schema: Mapping[str, Any], name: str) -> Json:
        """Rename a value by its schema, and the enum that it may be by the name of its field."""
        if isinstance(value, str):
            return rename_line(rename_value("", name, value))
        if isinstance(value, list):
            return [self._rename(element, schema.get("items", {}), name) for element in value]
        if not isinstance(value, dict):
            return value
        for reference in self._list_structs(schema):
            renamed_value = rename_fields(reference, value)
            properties = self._schemas[reference].get("properties", {})
            if renamed_value.keys() <= properties.keys():
                renamed_struct = {}
                for key, inner in renamed_value.items():
                    field_value = rename_value(reference, key, inner)
                    renamed_struct[key] = self._rename(field_value, properties.get(key, {}), key)
                return renamed_struct
        if name in UNTYPED_STRUCTS:
            value = rename_fields(UNTYPED_STRUCTS[name], value)
        inner_schema = self._find_values(schema)
        renamed_fields = {}
        for key, inner in value.items():
            renamed_key = rename_value("", "condition", key) if name == "conditions" else key
            renamed_fields[renamed_key] = self._rename(inner, inner_schema, key)
        return renamed_fields

    def _list_structs(self, schema: Mapping[str, Any]) -> Iterator[str]:
        if "$ref" in schema:
            reference = schema["$ref"].rpartition("/")[2]
            if "properties" in self._schemas[reference]:
                yield reference
            else:
                yield from self._list_structs(self._schemas[reference])
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from self._list_structs(choice)

    def _find_values(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema of the values of a mapping."""
        for choice in (schema, *schema.get("anyOf", ())):
            inner = choice.get("additionalProperties")
            if isinstance(inner, dict):
                return inner
        return {}


def rename_fields(struct: str, value: Mapping[str, Json]) -> dict[str, Json]:
    renamed_value = dict(value)
    for rule in RULES["fields"]:
        is_kind = "kinds" not in rule or value.get("kind") in rule["kinds"]
        if rule["in"] == struct and rule["old"] in renamed_value and is_kind:
            renamed_value[rule["new"]] = renamed_value.pop(rule["old"])
    for rule in RULES["added"]:
        if rule["in"] == struct:
            renamed_value.setdefault(rule["field"], None)
    return renamed_value


def rename_value(struct: str, field: str, value: Json) -> Json:
    for rule in RULES["values"]:
        if rule["field"] == field and rule["old"] == value and rule.get("in", struct) == struct:
            return rule["new"]
    return value


def rename_line(line: str) -> str:
    """Rename what a sentence says.

    >>> rename_line("s holds at 10:00: it waits for UA. UA has held it for 4s: it noted 5.")
    's is held back at 10:00: it waits for UA. UA has held it back for 4s: it noted 5.'
    """
    return substitute(RULES["sentences"], line)


def rename_path(path: str) -> str:
    """Rename what a request says in its path.

    >>> rename_path("s/writers/UA/hold"), rename_path("s/cut?complete_to=5&since=3")
    ('s/writers/UA/suspension', 's/cut?complete_to=5&from_time=3')
    """
    return substitute(RULES["requests"], path)


def substitute(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        text = re.sub(rule["old"], rule["new"], text)
    return text


def find_differences(
    old_answers: Mapping[str, Any], new_answers: Mapping[str, Any], renames: Renames
) -> Iterator[tuple[str, str, Json, Json]]:
    """Yield history, kind, and the renamed and the present answer where they differ."""
    for history, kinds in old_answers.items():
        for kind, before in kinds.items():
            after = new_answers[history].get(kind, [])
            if len(before) != len(after):
                yield history, kind, before, after
            for old_exchange, other in zip(before, after, strict=False):
                renamed_exchange = renames.rename_exchange(old_exchange)
                present = read_exchange(other, renamed_exchange)
                if renamed_exchange != present:
                    yield history, kind, renamed_exchange, present


def read_exchange(text: str, expected: Json) -> Json:
    """Return an answer of now in the shape of a renamed one."""
    if isinstance(expected, Exchange):
        return split_exchange(text)
    return [read_json(line) for line in text.splitlines()]


def split_exchange(text: str) -> Exchange:
    """Split a request and its answer, as `record.Console.call` writes them."""
    request, _, answer_text = text.partition("\n")
    method, _, rest = request.partition(" ")
    path, _, body = rest.partition(" ")
    status, _, answer = answer_text.partition(" ")
    return Exchange(method, path, read_json(body), status, read_json(answer))


def read_json(text: str) -> Json:
    """Return the object or list of a JSON text, or another text unchanged."""
    return json.loads(text) if text.startswith(("{", "[{")) else text


def find_schema(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON schema of a request's body or of an answer in OpenAPI."""
    schema: Mapping[str, Any] = (
        part.get("content", {}).get("application/json", {}).get("schema", {})
    )
    return schema


def find_changed_acts(old_folder: Path, new_folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the file and both lines of each act or answer that the rules do not explain."""
    for file in sorted((*new_folder.rglob("*.txt"), *new_folder.rglob("*.json"))):
        older = old_folder / file.relative_to(new_folder)
        before = list_acts(older) if older.exists() else []
        after = list_acts(file)
        for old_line, other in zip_longest(before, after, fillvalue=""):
            renamed_line = substitute(RULES["texts"], rename_line(old_line))
            if not have_renamed_keys(renamed_line, other):
                yield file.name, renamed_line, other


def list_acts(file: Path) -> list[str]:
    """Return the indented lines of a transcript, or all lines of JSON, with single spaces.

    Both ways to write "other fields" are one.
    """
    lines = file.read_text().splitlines()
    if file.suffix == ".json":
        lines = [line.replace('\\"', '"') for line in lines]
    else:
        lines = [line for line in lines if line.startswith("    ")]
    return [" ".join(line.replace('"...": 0', "…").split()) for line in lines]


def have_renamed_keys(before: str, after: str) -> bool:
    """Return whether two lines differ at most in keys of JSON that have a rule.

    >>> have_renamed_keys('GET s -> {"late": []}', 'GET s -> {"late_writers": []}')
    True
    >>> have_renamed_keys('GET s -> {"late": []}', 'GET s -> {"late_writers": [1]}')
    False
    """
    renamed_keys = {(rule["old"], rule["new"]) for rule in RULES["fields"]}
    old_parts = KEY.split(before)
    new_parts = KEY.split(after)
    if len(old_parts) != len(new_parts):
        return False
    pairs = zip(old_parts, new_parts, strict=True)
    return all(
        old_key == new_key or (old_key, new_key) in renamed_keys for old_key, new_key in pairs
    )


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.renames.judge", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--texts", action="store_true", help="compare transcripts, or vectors")
    options = parser.parse_args()
    if options.texts:
        changed_acts = [*find_changed_acts(options.old, options.new)]
        print(*changed_acts, sep="\n")  # noqa: T201
        sys.exit(bool(changed_acts))
    api = create_api(Controller(MemoryStore(), Clocks()))
    renames = Renames(api.openapi())
    counts = Counter[str]()
    for file in sorted(options.new.glob("*.json")):
        old_answers = json.loads((options.old / file.name).read_text())
        for history, kind, before, after in find_differences(
            old_answers, json.loads(file.read_text()), renames
        ):
            counts[kind] += 1
            if counts[kind] <= SHOWN:
                print(f"history {history}, {kind}:\n- {before}\n+ {after}")  # noqa: T201
    print("differences by kind:", dict(counts))  # noqa: T201
    sys.exit(bool(counts))


if __name__ == "__main__":
    main()
