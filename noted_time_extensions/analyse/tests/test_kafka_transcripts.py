"""Sessions with `noted-time analyse kafka`; their form is in `tests/kafka/test_transcripts.py`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.cli.test_transcripts import VERBS, clear_streams, split_session
from tests.kafka.test_transcripts import KAFKA_VERBS, KafkaSession
from tests.support.claimed import Orders
from tests.support.paragraphs import read_paragraphs
from tests.support.polling import count_polls
from tools.trials.kafka import Broker
from tools.trials.served import Served

FILES = sorted(Path(__file__).with_name("kafka_transcripts").glob("*.txt"))


@pytest.mark.acceptance
@pytest.mark.parametrize("acts", [each for file in FILES for each in read_paragraphs(file)])
def test_transcripts(
    broker: Broker, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    count_polls(monkeypatch)
    clear_streams(served)
    session = KafkaSession(served, Commands(served.url), Orders(tmp_path), broker=broker)
    for act in split_session(acts, "|".join((VERBS, *KAFKA_VERBS))):
        session.perform(act)
