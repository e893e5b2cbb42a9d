"""Sessions with `observe kafka debezium`; their form is in `tests/kafka/test_transcripts.py`."""

from pathlib import Path

import pytest

from tests.kafka.test_transcripts import play_session
from tests.support.paragraphs import read_paragraphs
from tools.trials.kafka import Broker
from tools.trials.served import Served

FILES = sorted(Path(__file__).with_name("kafka_transcripts").glob("*.txt"))


@pytest.mark.acceptance
@pytest.mark.parametrize("acts", [each for file in FILES for each in read_paragraphs(file)])
def test_transcripts(
    broker: Broker, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    play_session(acts, broker, served, tmp_path, monkeypatch)
