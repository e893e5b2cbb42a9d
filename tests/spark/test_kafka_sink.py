"""Spark's own Kafka sink under the Java interceptor: a derived stream without code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import java
from tests.support.kafka import Broker
from tests.support.kafka_judge import covered, judged
from tests.support.served import Served
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
]

ROWS = 400


def test_what_sparks_sink_writes_is_covered_by_its_notes_over_restarts(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """Two tasks a micro-batch share one producer, and so does the query that is started again."""
    broker.create("raw")
    broker.create("derived")
    controller.create("derived")
    reading: dict[str, Any] = {
        "subscribe": "raw",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 100,
    }
    sink: dict[str, Any] = {
        "topic": "derived",
        "checkpointLocation": str(tmp_path / "checkpoint"),
        "kafka.interceptor.classes": "notedtime.NotedTimeInterceptor",
        "kafka.noted.time.url": controller.url,
        "kafka.noted.time.period.ms": 50,
    }
    at_broker = {"kafka.bootstrap.servers": broker.address}
    raw = spark.readStream.format("kafka").options(**reading, **at_broker).load()
    for _ in range(2):
        broker.send("raw", [(row % 2, "any", 0) for row in range(ROWS)])
        writer = raw.select("value").writeStream.format("kafka").options(**sink, **at_broker)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    wait_until(lambda: covered(controller, "derived") == 2 * ROWS)
    last = max(record.time for record in broker.records("derived"))
    wait_until(lambda: controller.lower("derived") > last)
    assert judged(broker, "derived", controller=controller).violations == ()
    assert len(controller.writers("derived")) == 1
