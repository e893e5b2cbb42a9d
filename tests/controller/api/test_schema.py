import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noted_time import __version__
from noted_time.values import MAX_INT64
from tests.support.http import Caller
from tests.support.processes import ROOT, ServeProcess, run_python

HERE = Path(__file__).parent

OPERATIONS = HERE.joinpath("operations.txt").read_text().splitlines()
"""Every call, and the name that a generated client has for it."""

POSITION = {
    "type": "object",
    "description": "segment → exclusive offset; a missing segment means 0",
    "patternProperties": {
        "^(0|[1-9][0-9]{0,17})$": {"type": "integer", "minimum": 0, "maximum": MAX_INT64}
    },
    "additionalProperties": False,
}


async def test_document_describes_every_route(call: Caller) -> None:
    document = (await call.get("/openapi.json")).json()
    routes = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            routes.add(f"{method.upper()} {path} {operation['operationId']}")

    assert routes == set(OPERATIONS)


def list_operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for operations_by_method in document["paths"].values():
        operations += operations_by_method.values()
    return operations


async def test_document_describes_body_of_notes(call: Caller) -> None:
    document = (await call.get("/openapi.json")).json()
    body = document["paths"]["/v1/streams/{stream}/notes"]["post"]["requestBody"]
    shapes = document["components"]["schemas"]
    notes = shapes["NotesBody"]["properties"]["notes"]

    note: dict[str, Any] = shapes["NoteBody"]
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/NotesBody")
    assert notes["items"]["$ref"].endswith("/NoteBody")
    bounds = (notes["minItems"], notes["maxItems"], note["required"], note["additionalProperties"])
    fields = {"writer", "time", "position", "domain", "max_time", "state", "sequence"}
    fields |= {"domains", "timeout_ms", "late_rows", "session", "takes_over", "label", "max_times"}
    fields |= {"took_over", "no_time_reason", "log", "observes", "because", "from_time"}
    fields |= {"contact"}
    assert (bounds, set(note["properties"])) == ((1, 1000, ["writer"], False), fields)


async def test_api_page_names_each_field_of_answer(call: Caller) -> None:
    page = (ROOT / "docs/reference/api.md").read_text()
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]*`|\"\w+\"(?=:)", page))))
    shapes = (await call.get("/openapi.json")).json()["components"]["schemas"]
    for name, shape in shapes.items():
        if not name.endswith("Body"):
            assert shape.get("properties", {}).keys() <= words, name


async def test_document_has_release_and_examples_of_pages(call: Caller) -> None:
    """The tests of the pages run the examples."""
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    examples = [json.loads(example) for example in re.findall(r"--json '(\{[^…']*\})'", pages)]
    document = (await call.get("/openapi.json")).json()

    for operation in list_operations(document):
        assert " " in operation["summary"], operation["summary"]
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]
            assert body["example"] in examples
    assert document["info"]["version"] == __version__


async def test_answers_require_all_but_omitted_fields(call: Caller) -> None:
    shapes = (await call.get("/openapi.json")).json()["components"]["schemas"]
    answers = ("Answer", "Page", "Row", "TimeWindow")
    partial = set()
    for name, shape in shapes.items():
        if name.endswith(answers) and shape["required"] != [*shape["properties"]]:
            partial.add(name)

    assert partial == {"RefusedAnswer", "NotesAnswer", "CutAnswer"}


async def test_positions_of_answers_have_one_schema(call: Caller) -> None:
    shapes = (await call.get("/openapi.json")).json()["components"]["schemas"]

    assert shapes["Mark"]["properties"]["cut"] == POSITION
    assert shapes["GroupAnswer"]["properties"]["position"] == POSITION
    assert shapes["CompleteWindowAnswer"]["properties"]["from"] == POSITION


async def test_every_problem_of_document_is_problem_document(call: Caller) -> None:
    document = (await call.get("/openapi.json")).json()
    references = set()
    for operation in list_operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                references |= {*list_references(response)}

    assert references == {
        ("application/problem+json", "#/components/schemas/Problem"),
        ("application/problem+json", "#/components/schemas/NotesRefused"),
    }


def list_references(response: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the references to schemas in a response, each with its media type."""
    for media_type, content in response.get("content", {}).items():
        for schema in content["schema"].get("anyOf", [content["schema"]]):
            yield media_type, schema["$ref"]


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with ServeProcess(tmp_path).ready() as controller:
        words = ["-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml"]
        words += ["run", f"{controller.url}/openapi.json"]
        hooks = "tests.controller.api.schema_hooks"
        process = run_python(*words, cwd=tmp_path, SCHEMATHESIS_HOOKS=hooks)

    all_of_them = f"{len(OPERATIONS)} selected / {len(OPERATIONS)} total"
    assert (process.returncode, all_of_them in process.stdout) == (0, True), process.stdout
