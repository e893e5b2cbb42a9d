"""Writers in all languages pass the conformance runner."""

import sys
from pathlib import Path

from tests.conformance.__main__ import run_checks

WRITERS = Path(__file__).parent / "writers"
PYTHON = (sys.executable, str(WRITERS / "python_writer.py"))


def broken_by(*command: str) -> dict[str, str]:
    """Return the checks that a writer program fails, with what broke."""
    return {each.name: each.broken for each in run_checks(command) if each.broken}


def test_the_python_client_passes() -> None:
    """Its program is a thin layer over `WriterClient`."""
    assert broken_by(*PYTHON) == {}
