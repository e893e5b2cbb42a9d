"""Commands with a topic, where `transcripts/*.txt` do not suffice."""

import threading

import pytest

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, wait_until
from tests.cli.conftest import Commands, start_command

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
STREAM = {"domains": ["default", "ingestion"]}


def test_known_unit_skips_no_record(broker: Broker, served: Served, topic: str) -> None:
    """The thousand records that decide the unit are read again."""
    values = [f'{{"at": {NOON + n}}}' for n in range(1500)]
    broker.send(topic, [(n % 2, value, NOON) for n, value in enumerate(values)])
    options = ["--field", "at", "--delay", "5s", "--from", "earliest", "--for", "0s"]
    Commands(served.url)("observe", "kafka", "field", broker.address, topic, *options)

    marks = [(mark["cut"], mark["lower"]) for mark in served.all_marks(topic)]
    assert marks == [({"0": 750, "1": 750}, NOON + 1498 - 5000)]


def test_second_observer_of_a_name_fences_the_first(
    broker: Broker, served: Served, topic: str
) -> None:
    words = ["observe", "kafka", "ingestion", broker.address, topic, "--poll", "50ms"]
    with start_command(served, *words, "--max-lag", "50ms") as older:
        wait_until(lambda: served.all_marks(topic, "ingestion"))
        younger = Commands(served.url)(*words, "--max-lag", "50ms", "--for", "0s")
        _, errors = older.communicate(timeout=PATIENCE_S)

    assert (younger.status, older.returncode) == (0, 1)
    assert "noted-time: writer 'observer' is fenced" in errors


def test_new_records_are_analysed_by_the_local_clock(broker: Broker, topic: str) -> None:
    broker.send(topic, [(0, "{}", NOON)])
    ends = threading.Event()

    def go_on() -> None:
        while not ends.wait(0.1):
            broker.send(topic, [(1, "{}", NOON)])

    sender = threading.Thread(target=go_on)
    sender.start()
    words = ["analyse", "kafka", broker.address, topic, "--live", "2s", "--json"]
    found = Commands("http://127.0.0.1:9")(*words).json
    ends.set()
    sender.join()

    assert found["rows"] > 0
    assert (found["partitions"], found["assumed"]) == (1, None)
    assert "by its clock" in found["said"][0]
