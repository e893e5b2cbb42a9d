from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.processes import ServeProcess
from tests.support.transcript import examples, steady

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BINDING = "http://127.0.0.1:7464"


def test_every_example_of_the_api_page_runs(tmp_path: Path) -> None:
    """In the order of the page, on a fresh database, with the answers that it shows."""
    shown = examples(PAGE.read_text(encoding="utf-8"))
    with ServeProcess(tmp_path).ready() as controller:
        given = [
            subprocess.run(
                ["sh", "-c", command.replace("curl ", "curl -s ").replace(BINDING, controller.url)],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            ).stdout
            for command, _ in shown
        ]

    assert [steady(output) for output in given] == [steady(output) for _, output in shown]
