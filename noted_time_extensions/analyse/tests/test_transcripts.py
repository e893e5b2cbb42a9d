"""Sessions with `noted-time analyse`; their form is in `tests/cli/test_transcripts.py`."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Commands
from tests.cli.test_transcripts import Session, play_session
from tests.support.paragraphs import read_paragraphs
from tools.trials.served import Served

SESSIONS: list[Any] = []
for path in sorted(Path(__file__).with_name("transcripts").glob("*.txt")):
    SESSIONS += read_paragraphs(path)


@pytest.mark.parametrize("acts", SESSIONS)
def test_transcripts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    play_session(Session(served, Commands(served.url)), acts)
