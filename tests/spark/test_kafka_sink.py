"""Spark's Kafka sink with the Java interceptor: a derived stream without code."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from demo.trials import java
from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from tests.support.kafka_judge import count_covered, judge_marks
from tests.support.page import BINDING, Session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
]

ROWS = 400


def test_notes_of_the_pages_sink_cover_its_rows_over_a_restart(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """Two tasks of a micro-batch share one producer, and so does the restarted query."""
    broker.create("raw")
    broker.create("counts")
    controller.create("counts")
    reading = {"subscribe": "raw", "kafka.bootstrap.servers": broker.address}
    reading |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    raw = spark.readStream.format("kafka").options(**reading).load()
    elsewhere = {
        "127.0.0.1:9092": broker.address,
        BINDING: controller.url,
        '"kafka.noted.time.delay.ms", 1000': '"kafka.noted.time.period.ms", 50',
        "counts-checkpoint": str(tmp_path / "checkpoint"),
    }
    page = Session("docs/guides/java.md", elsewhere, counts=raw.select("value"))
    for _ in range(2):
        broker.send("raw", [(row % 2, "any", 0) for row in range(ROWS)])
        query = page.run("kafka.interceptor.classes")["query"]
        query.processAllAvailable()
        query.stop()

    wait_until(lambda: count_covered(controller, "counts") == 2 * ROWS)
    assert judge_marks(broker, "counts", controller=controller).violations == ()
    assert len(controller.writers("counts")) == 1
