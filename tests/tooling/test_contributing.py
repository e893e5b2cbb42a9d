"""The examples of the page on fields, applied to a copy of the tree."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from controller.store.migrate import WrongSchema, migrate
from controller.store.open import open_store
from tests.support.processes import ServeProcess, run_command, run_python
from tools.trials.calls import HTTP

PAGE = "docs/explain/adding-a-field.md"

STEP = re.compile(r"^ *```diff\n *\+\+\+ (\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

DECODE = """
import sys
from noted_time.answers import Explanation
from noted_time.coding import build_decoder
print(build_decoder(Explanation).decode(sys.argv[1].encode()).reader.rows)
"""


def list_steps(page: str) -> list[tuple[str, str, str]]:
    """Return the file of each change, the lines that it replaces, and the lines in their place."""
    steps = []
    for path, lines in STEP.findall(page):
        marked_lines = [line.removeprefix("   ") for line in lines.splitlines()]
        before = join_lines(marked_lines, " -")
        after = join_lines(marked_lines, " +")
        steps.append((path, before, after))
    return steps


def join_lines(marked_lines: list[str], signs: str) -> str:
    """Return the lines that begin with one of the signs, without the sign."""
    return "".join(f"{line[1:]}\n" for line in marked_lines if line[:1] in signs)


@pytest.fixture
def tree_with_examples(root: Path, tmp_path: Path) -> Path:
    for top in ("controller", "noted_time", "noted_time_cli", "migrations"):
        shutil.copytree(root / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    for path, before, after in list_steps((root / PAGE).read_text()):
        file = tmp_path / path
        text = file.read_text() if file.exists() else ""
        assert text.count(before) == 1 if text else not before, (path, before)
        file.write_text(text.replace(before, after) if text else after)
    return tmp_path


def test_examples_add_a_field_and_a_setting(tree_with_examples: Path) -> None:
    """The setting is kept in a database that the code before the change has created."""
    tree = tree_with_examples
    code: dict[str, Any] = {"PYTHONPATH": str(tree)}
    database = f"sqlite:///{tree / 'noted-time.db'}"
    migrate(database)
    run_command("migrate", cwd=tree, **code).check_returncode()
    with ServeProcess(tree, **code).ready() as controller:
        created_stream = controller.create("s", contact="ops", max_time_ahead_ms=None)
        refusal = controller.ask("PUT", "/streams/s", {"contact": "x" * 129})
        controller.post("s", {"writer": "UA", "time": 10, "position": {"0": 9, "1": 4}})
        explanation = controller.ask("GET", "/streams/s/explain", position='{"0":7}')
        schemas = HTTP.get(f"{controller.url}/openapi.json").json()["components"]["schemas"]
    with ServeProcess(tree, **code).ready() as controller:
        restarted_stream = controller.get("s")
        disabled_stream = controller.create("s", contact=None)
    decoded_rows = run_python("-c", DECODE, explanation.text, cwd=tree, **code).stdout
    options = run_command("stream", "create", "--help", cwd=tree, **code).stdout

    contacts = [stream["contact"] for stream in (created_stream, restarted_stream, disabled_stream)]
    assert (contacts, refusal.status_code) == (["ops", "ops", None], 422)
    assert (explanation.json()["reader"]["rows"], decoded_rows) == (6, "6\n")
    assert "--contact" in options
    assert "contact" in schemas["StreamChanges"]["properties"]
    assert "rows" in schemas["ReaderPlace"]["properties"]
    with pytest.raises(WrongSchema, match="is at 0008, newer than 0007"):
        open_store(database)
