"""`noted-time analyse kafka` of the records that a topic gets while it looks."""

import threading

import pytest

from tests.cli.conftest import Commands
from tests.kafka.conftest import Flights

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


def test_new_records_are_analysed_by_the_local_clock(flights: Flights) -> None:
    flights.send((0, "{}", NOON))
    ends = threading.Event()

    def go_on() -> None:
        while not ends.wait(0.1):
            flights.send((1, "{}", NOON))

    sender = threading.Thread(target=go_on)
    sender.start()
    words = ["analyse", "kafka", flights.broker.address, flights.topic, "--live", "2s", "--json"]
    analysis = Commands("http://127.0.0.1:9")(*words).json
    ends.set()
    sender.join()

    assert analysis["rows"] > 0
    assert (analysis["partitions"], analysis["assumed"]) == (1, None)
    assert "by its clock" in analysis["notices"][0]
