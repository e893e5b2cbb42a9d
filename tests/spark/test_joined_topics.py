"""Joins of two topics."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.starting import retry_start
from spark_integration import KafkaRecords, Noted, read_noted_kafka
from tests.support.query_output import QueryOutput

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_kafka")]

BEGIN_MS = 1_357_002_000_000
NEAR = "name = who AND landed BETWEEN time - INTERVAL 10 SECONDS AND time + INTERVAL 10 SECONDS"


class Topic:
    """A topic of one partition, and the notes of its only writer. Times are seconds."""

    def __init__(self, name: str, broker: Broker, controller: Served) -> None:
        self.name, self._broker = name, broker
        self._stream = controller.stream(name)
        self._end = 0
        broker.create(name, 1)

    def write(self, second: int, *names: str) -> None:
        rows = [(0, name, BEGIN_MS + second * 1000) for name in names]
        self._broker.send(self.name, rows)
        self._end += len(rows)

    def note(self, second: int) -> None:
        self._stream.note("w", BEGIN_MS + second * 1000, {0: self._end})


def parse(records: DataFrame) -> DataFrame:
    """Return (time, name)."""
    return records.select(F.col("timestamp").alias("time"), F.expr("string(value)").alias("name"))


def test_join_finds_pairs_if_one_side_has_only_marks(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """Otherwise Spark would optimize the null columns of marks, and the join's condition."""
    departed, landed = (Topic(name, broker, controller) for name in ("departed", "landed"))
    outputs = {how: QueryOutput(tmp_path / how) for how in ("inner", "left_outer")}

    def pairs(how: str) -> DataFrame:
        one, two = (
            read_noted_kafka(
                spark,
                KafkaRecords(topic.name, broker.address, parse=parse),
                Noted(controller.url),
                event_time="time",
                checkpoint_location=str(outputs[how].checkpoint),
                marks="committed",
            )
            for topic in (departed, landed)
        )
        right = two.select(F.col("time").alias("landed"), F.col("name").alias("who"))
        return one.select("time", "name").join(right, F.expr(NEAR), how)

    def catch_up() -> None:
        for query in queries:
            query.processAllAvailable()

    departed.write(1, "both", "left first")
    landed.write(3, "both", "right first")
    departed.note(5)
    landed.note(5)
    queries = [out.start(retry_start(partial(pairs, how))) for how, out in outputs.items()]
    catch_up()
    departed.write(6, "right first")
    for topic in (departed, landed):
        topic.note(7)
    catch_up()
    landed.write(8, "left first")
    for topic in (departed, landed):
        topic.note(9)
    catch_up()
    for query in queries:
        query.stop()

    for output in outputs.values():
        assert [row[1] for row in output.rows if row[3]] == ["both", "left first", "right first"]
