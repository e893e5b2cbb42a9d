"""`noted-time observe kafka field`, where `transcripts/*.txt` do not suffice."""

import pytest

from tests.cli.conftest import Commands
from tests.kafka.conftest import Flights

pytestmark = pytest.mark.acceptance


def test_known_unit_skips_no_record(flights: Flights) -> None:
    """The thousand records that decide the unit are read again."""
    noon = 1_357_041_600_000
    flights.send(*((n % 2, f'{{"at": {noon + n}}}', noon) for n in range(1500)))
    options = ["--field", "at", "--delay", "5s", "--from", "earliest", "--for", "0s"]
    topic = (flights.broker.address, flights.topic)
    Commands(flights.served.url)("observe", "kafka", "field", *topic, *options)

    marks = [(mark["cut"], mark["lower"]) for mark in flights.list_marks()]
    assert marks == [({"0": 750, "1": 750}, noon + 1498 - 5000)]
