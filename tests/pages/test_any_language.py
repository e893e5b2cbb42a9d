"""The examples for writers of a shell, run as they are printed."""

from pathlib import Path

from tests.support.calls import HOUR_MS
from tests.support.page import Runner
from tests.support.processes import ServeProcess

PAGE = "docs/guides/any-language.md"
ELEVEN = 1_357_041_540_000
FOURTEEN = ELEVEN + 3 * HOUR_MS


def test_the_loops_of_a_shell_run(tmp_path: Path) -> None:
    """By `noted-time note` and by curl. The last example asks up to when the stream is complete."""
    with ServeProcess(tmp_path).ready() as controller:
        Runner(tmp_path, controller.url).run_page(PAGE)
        found = controller.writers("receipts")

    assert found == {
        "till-1": {"state": "finished", "times": {"default": ELEVEN}, "position": {"0": 3}},
        "till-2": {"state": "finished", "times": {"default": FOURTEEN}, "position": {"1": 3}},
    }
