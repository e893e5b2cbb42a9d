"""The example of CONTRIBUTING.md, done as it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

STEP = re.compile(r"^ *```diff\n *\+\+\+ (\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

PLAYED = r"""
import asyncio, json
import httpx
from typer.testing import CliRunner
from controller.api.app import create_app
from controller.service.controller import Controller
from tests.support.memory_store import MemoryStore
from noted_time_cli.app import app

async def play():
    controller = Controller(MemoryStore())
    await controller.start()
    transport = httpx.ASGITransport(create_app(controller))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        put = lambda **body: client.put("/v1/streams/s", json=body)
        answers = [await put(), await put(contact="ops"), await put(contact=None)]
        refused = await put(contact="x" * 129)
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    await controller.close()
    shown = [answer.json()["contact"] for answer in answers]
    return shown, refused.status_code, "contact" in schemas["StreamChanges"]["properties"]

helped = CliRunner().invoke(app, ["stream", "create", "--help"], env={"COLUMNS": "120"}).output
print(json.dumps([*asyncio.run(play()), "--contact" in helped]))
"""


def steps(page: str) -> list[tuple[str, str, str]]:
    """Return the file of each change, the lines that it replaces, and those in their place."""
    found = []
    for path, lines in STEP.findall(page):
        marked = [line.removeprefix("   ") for line in lines.splitlines()]
        before, after = (
            "".join(f"{line[1:]}\n" for line in marked if line[0] in kept) for kept in (" -", " +")
        )
        found.append((path, before, after))
    return found


def test_the_example_adds_a_setting(root: Path, tmp_path: Path) -> None:
    """It is set, shown, switched off, bounded, described, and an option of the command line."""
    for top in ("controller", "noted_time", "noted_time_cli", "migrations"):
        shutil.copytree(root / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    for path, before, after in steps((root / "CONTRIBUTING.md").read_text()):
        text = (tmp_path / path).read_text()
        assert text.count(before) == 1, (path, before)
        (tmp_path / path).write_text(text.replace(before, after))
    played = subprocess.run(
        [sys.executable, "-c", PLAYED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert played.stdout.strip().splitlines()[-1:] == ['[[null, "ops", null], 422, true, true]'], (
        played.stderr[-2000:]
    )
