import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import ServeProcess
from tools.trials.waiting import PATIENCE_S


@pytest.mark.skipif(
    shutil.which("javac") is None,
    reason="needs a JDK, 11 or newer: apt install default-jdk-headless",
)
def test_the_default_client_of_java_notes(tmp_path: Path) -> None:
    """The client offers an upgrade with each request, bodies included."""
    program = str(Path(__file__).parent / "java" / "Main.java")
    with ServeProcess(tmp_path).ready() as controller:
        words = ["java", program, controller.url]
        output = subprocess.check_output(words, text=True, timeout=PATIENCE_S)

    assert output.splitlines() == ["HTTP_1_1 201", *["HTTP_1_1 200"] * 5]
