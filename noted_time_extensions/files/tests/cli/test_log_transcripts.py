"""Sessions with a file log; see `transcripts/*.txt`, and `tests/cli/test_transcripts.py`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.cli.test_transcripts import Session, clear_streams, split_session
from tests.support.claimed import Orders
from tests.support.paragraphs import read_paragraphs
from tests.support.polling import count_polls
from tools.trials.served import Served

FILES = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


@pytest.mark.parametrize("acts", [act for file in FILES for act in read_paragraphs(file)])
def test_transcripts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    count_polls(monkeypatch)
    clear_streams(served)
    session = Session(served, Commands(served.url), Orders(tmp_path))
    with session.stack:
        for act in split_session(acts):
            session.perform(act)
