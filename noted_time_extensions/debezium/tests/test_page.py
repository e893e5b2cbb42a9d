"""The page of change data capture, on records as Debezium and Kafka Connect write them."""

import json
from pathlib import Path

import pytest

from tests.pages.test_pages import on_kafka
from tests.support.page import BLOCK, DEFAULT_RETENTION, Example, Runner, find_yesterday, read_page
from tests.support.processes import ServeProcess
from tools.trials.debezium import CONNECTOR, WORKER
from tools.trials.kafka import Broker

PAGE = "guides/change-data-capture"
TOPIC = "sales.public.orders"
OFFSETS = "connect-offsets"
MINUTE = 60_000
DELAY = 1000
"""The default of `--delay`."""

OBSERVE = f"noted-time observe kafka debezium 127.0.0.1:9092 {TOPIC} --connector shop --for 0s"
WRITTEN_BEFORE = 90 * MINUTE
"""How long before midnight all offsets were written, so the worker has stopped at any hour."""

OFFSET_KEY = '["shop",{"server":"sales"}]'


@pytest.mark.spark
@pytest.mark.acceptance
def test_examples_of_the_page_count_changes_before_midnight(broker: Broker, tmp_path: Path) -> None:
    """The observer has looked before. Two orders were then inserted in the last hour of a day.

    It can be seconds after midnight.
    """
    midnight = find_yesterday(24)
    for topic, partitions in (TOPIC, 2), (OFFSETS, 1):
        broker.create(topic, partitions, DEFAULT_RETENTION)
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url, on_kafka(broker))
        controller.create(TOPIC)
        commit_orders(broker, midnight, -90 * MINUTE, -80 * MINUTE)
        runner.run(Example("sh", OBSERVE, None))
        commit_orders(broker, midnight, -50 * MINUTE, -20 * MINUTE)
        commit_orders(broker, midnight, DELAY + 1, DELAY + 2)

        assert runner.run_page(f"docs/{PAGE}.md")


def commit_orders(broker: Broker, midnight: int, *times: int) -> None:
    """Insert an order at each time from midnight, and let Kafka Connect commit its offset."""
    for time_from_midnight in times:
        time = midnight + time_from_midnight
        change = {"op": "c", "source": {"name": "sales", "ts_ms": time}}
        offset = {"ts_usec": time * 1000, "lsn_commit": time}
        broker.send(TOPIC, [(0, json.dumps(change), time)])
        broker.send(OFFSETS, [(0, json.dumps(offset), midnight - WRITTEN_BEFORE)], OFFSET_KEY)


def test_settings_of_the_page_are_of_the_worker_that_is_tested() -> None:
    """The tests flush offsets and send heartbeats more often, and tolerate no error by default."""
    blocks = [
        text
        for language, text in BLOCK.findall(read_page(f"docs/{PAGE}.md"))
        if language == "properties"
    ]
    worker, connector = [dict(line.split("=", 1) for line in text.splitlines()) for text in blocks]

    assert worker.keys() <= WORKER.keys()
    assert connector.pop("errors.tolerance") == "none"
    del connector["heartbeat.interval.ms"]
    assert connector.items() <= CONNECTOR.items()
