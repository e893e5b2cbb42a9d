"""The loops of writers in other languages, each run as it is printed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.calls import HOUR_MS, HTTP
from tests.support.page import BLOCK, Runner, text_of
from tests.support.processes import ServeProcess
from tests.support.waiting import PATIENCE_S

PAGE = "docs/guides/any-language.md"
COMMANDS = {"go": ("go", "run", "loop.go"), "js": ("node", "loop.mjs")}
ELEVEN = 1_357_041_540_000
FOURTEEN = ELEVEN + 3 * HOUR_MS


def test_the_loops_of_a_shell_run(tmp_path: Path) -> None:
    """By `noted-time note` and by curl; the last example asks what is complete then."""
    with ServeProcess(tmp_path).ready() as controller:
        Runner(tmp_path, controller.url).run_page(PAGE)
        rows = writers(controller.url)

    assert rows == {
        "till-1": ("finished", {"default": ELEVEN}, {"0": 3}),
        "till-2": ("finished", {"default": FOURTEEN}, {"1": 3}),
    }


@pytest.mark.parametrize(
    ("language", "writer", "segment"), [("go", "till-3", "2"), ("js", "till-4", "3")]
)
def test_the_loop_of_a_language_runs(
    language: str, writer: str, segment: str, tmp_path: Path
) -> None:
    """It joins, notes each hour with its position, and finishes."""
    command, *words = COMMANDS[language]
    program = shutil.which(command)
    if program is None:
        pytest.skip(f"{command} is not installed")
    ((_, text),) = (each for each in BLOCK.findall(text_of(PAGE)) if each[0] == language)
    with ServeProcess(tmp_path).ready() as controller:
        HTTP.put(f"{controller.url}/v1/streams/receipts", json={}).raise_for_status()
        (tmp_path / words[-1]).write_text(Runner(tmp_path, controller.url).here(text))
        subprocess.run([program, *words], cwd=tmp_path, timeout=PATIENCE_S, check=True)
        rows = writers(controller.url)

    assert rows == {writer: ("finished", {"default": ELEVEN}, {segment: 3})}
    assert len((tmp_path / f"{writer}.log").read_text().splitlines()) == 3


def writers(url: str) -> dict[str, tuple[str, dict[str, int], dict[str, int]]]:
    """Return what the controller knows of each writer."""
    rows = HTTP.get(f"{url}/v1/streams/receipts/writers").json()["writers"]
    return {row["writer"]: (row["state"], row["times"], row["position"]) for row in rows}
