"""The examples of CONTRIBUTING.md, applied to a copy of the tree."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STEP = re.compile(r"^ *```diff\n *\+\+\+ (\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

MIGRATE = "import sys; from controller.store.migrate import migrate; migrate(sys.argv[1])"

OPEN = "import sys; from controller.store.open import open_store; open_store(sys.argv[1])"

PLAY = """
import asyncio, json, sys
import httpx
from typer.testing import CliRunner
from controller.api.app import create_app
from controller.service.controller import Controller
from controller.store.open import open_store
from noted_time.answers import Explanation
from noted_time.coding import build_decoder
from noted_time_cli.app import app

async def ask(*requests):
    controller = Controller(open_store(sys.argv[1]))
    await controller.start()
    transport = httpx.ASGITransport(create_app(controller))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answers = [await client.request(method, path, json=body) for method, path, body in requests]
    await controller.close()
    return answers

put = lambda **body: ("PUT", "/v1/streams/s", body)
note = {"writer": "UA", "time": 10, "position": {"0": 9, "1": 4}}
explain = ("GET", '/v1/streams/s/explain?position={"0":7}', None)
created, refused, noted, explained, documented = asyncio.run(ask(
    put(contact="ops", mark_interval_ms=0, max_time_ahead_ms=None),
    put(contact="x" * 129),
    ("POST", "/v1/streams/s/notes", {"notes": [note]}),
    explain,
    ("GET", "/openapi.json", None),
))
restarted, disabled = asyncio.run(ask(("GET", "/v1/streams/s", None), put(contact=None)))
schemas = documented.json()["components"]["schemas"]
print(json.dumps({
    "created": created.json()["contact"],
    "refused": refused.status_code,
    "restarted": restarted.json()["contact"],
    "disabled": disabled.json()["contact"],
    "option": "--contact" in CliRunner().invoke(
        app, ["stream", "create", "--help"], env={"COLUMNS": "120"}).output,
    "rows": explained.json()["reader"]["rows"],
    "decoded": build_decoder(Explanation).decode(explained.content).reader.rows,
    "documented": ["contact" in schemas["StreamChanges"]["properties"],
                   "rows" in schemas["ReaderPlace"]["properties"]],
}))
"""


def list_steps(page: str) -> list[tuple[str, str, str]]:
    """Return the file of each change, the lines that it replaces, and the lines in their place."""
    found = []
    for path, lines in STEP.findall(page):
        marked = [line.removeprefix("   ") for line in lines.splitlines()]
        before, after = (
            "".join(f"{line[1:]}\n" for line in marked if line[:1] in kept) for kept in (" -", " +")
        )
        found.append((path, before, after))
    return found


def run_program(program: str, tree: Path, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, url],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tree_with_examples(root: Path, tmp_path: Path) -> Path:
    for top in ("controller", "noted_time", "noted_time_cli", "migrations"):
        shutil.copytree(root / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    for path, before, after in list_steps((root / "CONTRIBUTING.md").read_text()):
        file = tmp_path / path
        text = file.read_text() if file.exists() else ""
        assert text.count(before) == 1 if text else not before, (path, before)
        file.write_text(text.replace(before, after) if text else after)
    return tmp_path


def test_examples_add_a_field_and_a_setting(root: Path, tree_with_examples: Path) -> None:
    """The setting is kept in a database that the code before the change has created."""
    url = f"sqlite:///{tree_with_examples / 'noted.db'}"
    done = [run_program(MIGRATE, tree, url) for tree in (root, tree_with_examples)]
    played = run_program(PLAY, tree_with_examples, url)
    older = run_program(OPEN, root, url)

    assert [each.returncode for each in done] == [0, 0], done
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout.splitlines()[-1]) == {
        "created": "ops",
        "refused": 422,
        "restarted": "ops",
        "disabled": None,
        "option": True,
        "rows": 6,
        "decoded": 6,
        "documented": [True, True],
    }
    assert "is at 0002, newer than 0001" in older.stderr
