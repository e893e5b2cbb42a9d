"""One fact is declared once: no record again elsewhere, and few edits for a field more."""

import ast
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.tooling.wheels import PACKAGES

FEW = 3
"""Records with fewer fields may be alike by chance."""

MOST_EDITS = 10

RATE = (
    ("noted_time/values/note.py", '    label: str = ""\n', "    rate: int | None = None\n"),
    (
        "controller/api/notes/body.py",
        '    "sequence": (Number | None, Threshold | None, None),\n',
        '    "rate": (Number | None, Threshold | None, None),\n',
    ),
    (
        "noted_time/rules/member.py",
        "    is_queued_as_gone: bool = False\n",
        "    rate: int | None = None\n",
    ),
    (
        "noted_time/rules/members.py",
        "            member.sequence = note.sequence\n",
        "        if note.rate is not None:\n            member.rate = note.rate\n",
    ),
    (
        "noted_time/rules/member.py",
        "        self.sequence = record.sequence\n",
        "        self.rate = record.rate\n",
    ),
    (
        "noted_time/rules/member.py",
        "    exclusions: Mapping[str, ExcludedSince] = {}\n    undeclared: tuple[str, ...] = ()\n",
        "    rate: int | None = None\n",
    ),
    ("noted_time/rules/member.py", "        undeclared,\n", "        member.rate,\n"),
    (
        "controller/aggregation/shown/inspection.py",
        "    session: HeldName | None\n",
        "    rate: int | None\n",
    ),
    (
        "controller/aggregation/shown/inspection.py",
        "        late=record.late,\n",
        "        rate=record.rate,\n",
    ),
    (
        "controller/api/pages/dashboard/strip.js",
        '    cell("Noted", row.is_expected ? "never" : when(time)),\n',
        '    cell("Rate.n", row.rate ?? ""),\n',
    ),
)
"""Each edit that a new field of the note takes until the page shows it: file, place, lines."""

PLAYED = r"""
import asyncio, re, sys
import httpx
from controller.api.app import create_app
from controller.service.controller import Controller
from controller.store.migrate import migrate
from controller.store.open import open_store

async def call(work):
    controller = Controller(open_store(sys.argv[1]))
    await controller.start()
    transport = httpx.ASGITransport(create_app(controller))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await work(client)
    await controller.close()
    return answer

async def note(client):
    await client.put("/v1/streams/s")
    body = {"notes": [{"writer": "w", "time": 5, "rate": 7}, {"writer": "x", "rate": 0}]}
    refused = await client.post("/v1/streams/s/notes", json=body)
    taken = await client.post("/v1/streams/s/notes", json={"notes": body["notes"][:1]})
    return refused.json()["errors"][0]["where"], taken.status_code

async def shown(client):
    row = (await client.get("/v1/streams/s/writers/w")).json()
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    described = ["rate" in schemas[name]["properties"] for name in ("NoteBody", "WriterRow")]
    page = (await client.get("/")).text
    module = re.search(r'"([^"]+/strip.js)"', page)[1]
    return row["rate"], described, "row.rate" in (await client.get("/" + module)).text

migrate(sys.argv[1])
print(*asyncio.run(call(note)), *asyncio.run(call(shown)))
"""
"""The field is noted, with a bound, and shown by the next controller on the database."""


def test_no_two_classes_have_the_same_fields(root: Path) -> None:
    """A fact that is there twice is in two truths one day."""
    declared = defaultdict(list)
    for path in sorted(path for top in PACKAGES for path in (root / top).rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef):
                targets = (part.target for part in each.body if isinstance(part, ast.AnnAssign))
                fields = frozenset(name.id for name in targets if isinstance(name, ast.Name))
                declared[fields].append(f"{path.relative_to(root)}::{each.name}")

    assert [
        classes for fields, classes in declared.items() if len(fields) >= FEW and len(classes) > 1
    ] == []


def test_a_new_field_of_the_note_is_on_the_page_by_ten_edits(root: Path, tmp_path: Path) -> None:
    """Body and bound, member, record, row, page; the store and OpenAPI follow by themselves."""
    for top in ("controller", "noted_time", "migrations"):
        shutil.copytree(root / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    for path, before, added in RATE:
        text = (tmp_path / path).read_text()
        assert text.count(before) == 1, (path, before)
        (tmp_path / path).write_text(text.replace(before, before + added))
    played = subprocess.run(
        [sys.executable, "-c", PLAYED, f"sqlite:///{tmp_path / 'noted-time.db'}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    said = played.stdout.strip().splitlines()[-1:]
    assert (said, len(RATE) <= MOST_EDITS) == (
        ["body.notes.1.rate 200 7 [True, True] True"],
        True,
    ), played.stderr[-2000:]
