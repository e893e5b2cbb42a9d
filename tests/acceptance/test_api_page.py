from __future__ import annotations

from pathlib import Path

from tests.support.processes import ServeProcess
from tests.support.transcript import examples, outputs, steady

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_every_example_of_the_api_page_runs(tmp_path: Path) -> None:
    """In the order of the page, on a fresh database, with the answers that it shows."""
    shown = examples(PAGE.read_text(encoding="utf-8"))
    with ServeProcess(tmp_path).ready() as controller:
        given = outputs(shown, controller.url)

    assert [steady(output) for output in given] == [steady(output) for _, output in shown]
