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
OBSERVE = f"noted-time observe kafka debezium 127.0.0.1:9092 {TOPIC} --connector shop --for 0s"
OFFSET_KEY = '["shop",{"server":"sales"}]'


@pytest.mark.spark
@pytest.mark.acceptance
def test_examples_of_the_page_count_changes_before_midnight(broker: Broker, tmp_path: Path) -> None:
    """The observer has looked before. Two orders were then inserted in the last hour of a day."""
    midnight = find_yesterday(24)
    for topic, partitions in (TOPIC, 2), (OFFSETS, 1):
        broker.create(topic, partitions, DEFAULT_RETENTION)
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url, on_kafka(broker))
        controller.create(TOPIC)
        commit_orders(broker, midnight - 90 * MINUTE, midnight - 80 * MINUTE)
        runner.run(Example("sh", OBSERVE, None))
        commit_orders(broker, midnight - 50 * MINUTE, midnight - 20 * MINUTE)
        commit_orders(broker, midnight + 5 * MINUTE, midnight + 10 * MINUTE)

        assert runner.run_page(f"docs/{PAGE}.md")


def commit_orders(broker: Broker, *times: int) -> None:
    """Insert an order at each time, and let Kafka Connect commit its offset."""
    for time in times:
        change = {"op": "c", "source": {"name": "sales", "ts_ms": time}}
        offset = {"ts_usec": time * 1000, "lsn_commit": time}
        broker.send(TOPIC, [(0, json.dumps(change), time)])
        broker.send(OFFSETS, [(0, json.dumps(offset), time)], OFFSET_KEY)


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
