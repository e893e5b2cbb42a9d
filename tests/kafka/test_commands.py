"""Commands with a topic, where `transcripts/*.txt` do not suffice."""

import pytest

from tests.cli.conftest import Commands, start_command
from tests.kafka.conftest import Flights
from tools.trials.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

STREAM = {"domains": ["default", "ingestion"]}


def test_second_observer_of_a_name_fences_the_first(flights: Flights) -> None:
    topic = (flights.broker.address, flights.topic)
    often = ("--poll", "50ms", "--max-lag", "50ms")
    words = ["observe", "kafka", "ingestion", *topic, *often]
    with start_command(flights.served, *words) as older:
        wait_until(lambda: flights.list_marks("ingestion"))
        younger = Commands(flights.served.url)(*words, "--for", "0s")
        _, errors = older.communicate(timeout=PATIENCE_S)

    assert (younger.status, older.returncode) == (0, 1)
    assert "noted-time: writer 'observer' is fenced" in errors
