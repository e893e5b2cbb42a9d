import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.trials.waiting import PATIENCE_S
from tests.support.processes import ServeProcess

PROGRAM = Path(__file__).parent / "java" / "Main.java"


@pytest.fixture
def controller_process(tmp_path: Path) -> Iterator[ServeProcess]:
    """Run a controller in another process."""
    with ServeProcess(tmp_path).ready() as process:
        yield process


@pytest.mark.skipif(
    shutil.which("javac") is None,
    reason="needs a JDK, 11 or newer: apt install default-jdk-headless",
)
def test_the_default_client_of_java_notes(controller_process: ServeProcess) -> None:
    """The client offers an upgrade with each request, bodies included."""
    ran = subprocess.run(
        ["java", str(PROGRAM), controller_process.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert ran.stdout.splitlines() == ["HTTP_1_1 201", *["HTTP_1_1 200"] * 5]
