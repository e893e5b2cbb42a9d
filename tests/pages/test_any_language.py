"""The examples for writers in other languages, each run as it is printed."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.page import BLOCK, ROOT, Runner, read_page
from tests.support.processes import ServeProcess
from tools.trials.calls import HOUR_MS
from tools.trials.waiting import PATIENCE_S

PAGE = "docs/guides/any-language.md"
ELEVEN = 1_357_041_540_000
FOURTEEN = ELEVEN + 3 * HOUR_MS
NINE = ELEVEN - 2 * HOUR_MS

GO_PROGRAM = """package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"notedtime"
)

func write(ctx context.Context, events *os.File) error {
	EXAMPLE
}

func main() {
	events, err := os.Create("till-3.log")
	if err == nil {
		err = write(context.Background(), events)
	}
	if err != nil {
		log.Fatal(err)
	}
}
"""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ServeProcess]:
    """Return a new controller."""
    with ServeProcess(tmp_path).ready() as controller:
        yield controller


def test_the_loops_of_a_shell_run(controller: ServeProcess, tmp_path: Path) -> None:
    """They note by `noted-time note` and by curl, and ask up to when the stream is complete."""
    Runner(tmp_path, controller.url).run_page(PAGE)

    assert find_writers(controller) == {
        "till-1": ("finished", {"default": ELEVEN}, {"0": 3}),
        "till-2": ("finished", {"default": FOURTEEN}, {"1": 3}),
    }


def test_the_example_in_go_runs(controller: ServeProcess, tmp_path: Path) -> None:
    """The module replaces `notedtime` by the folder, as on the page."""
    go = find_tool("go")
    source = ROOT / "integrations" / "go"
    program = GO_PROGRAM.replace("EXAMPLE", example_in("go"))
    (tmp_path / "main.go").write_text(Runner(tmp_path, controller.url).localize(program))
    controller.create("receipts")
    run(tmp_path, go, "mod", "init", "till")
    run(tmp_path, go, "mod", "edit", f"-replace=notedtime={source}")
    run(tmp_path, go, "get", "notedtime")
    run(tmp_path, go, "run", ".")

    assert find_writers(controller) == {"till-3": ("finished", {"default": NINE}, {"2": 1})}


def test_the_example_in_typescript_runs(controller: ServeProcess, tmp_path: Path) -> None:
    """It uses the compiled package, as `npm install` makes it."""
    node = find_tool("node")
    source = ROOT / "integrations" / "typescript"
    compiler = source / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("no compiler: npm install --prefix integrations/typescript")
    package = tmp_path / "node_modules" / "noted-time"
    run(tmp_path, str(compiler), "-p", str(source), "--outDir", str(package / "dist"))
    shutil.copy(source / "package.json", package)
    (tmp_path / "till.mjs").write_text(Runner(tmp_path, controller.url).localize(example_in("ts")))
    controller.create("receipts")
    run(tmp_path, node, "till.mjs")

    assert find_writers(controller) == {"till-4": ("finished", {"default": NINE}, {"3": 1})}


def find_tool(name: str) -> str:
    """Return the path of a program. The test is skipped without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def example_in(language: str) -> str:
    """Return the only block of a language."""
    ((_, text),) = (block for block in BLOCK.findall(read_page(PAGE)) if block[0] == language)
    return str(text)


def run(directory: Path, *command: str) -> None:
    """Run a command, which must succeed."""
    subprocess.run(command, cwd=directory, timeout=PATIENCE_S, check=True)


def find_writers(controller: ServeProcess) -> dict[str, tuple[object, ...]]:
    """Return the state, times and position of each writer of the stream."""
    return {name: (*row.values(),) for name, row in controller.writers("receipts").items()}
