"""Up to when a Spark query has written a topic, on a real broker, without anything of ours."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from demo.trials.kafka import Broker
from noted_time import why
from reader_client import complete_to
from spark_integration.checkpoint.committed import read_committed_offsets
from tests.support.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]
TEN = 1_357_034_400_000
MINUTE = 60_000


def counted(events: DataFrame) -> DataFrame:
    """Return the number of events in each minute, by Spark's own watermark."""
    minutes = window("timestamp", "1 minute")
    return events.withWatermark("timestamp", "2 minutes").groupBy(minutes).count()


@pytest.mark.parametrize("has_state", [False, True])
def test_a_query_is_complete_to_what_it_committed(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path, *, has_state: bool
) -> None:
    """And with state to its watermark at most: three minutes are read, and the first is written."""
    topic, place = uuid4().hex, str(tmp_path / "checkpoint")
    broker.create(topic, 1)
    controller.create(topic)
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = counted(events) if has_state else events.select("value")
    found = []
    for number in (1, 2):
        end = TEN + 3 * number * MINUTE
        broker.send(topic, [(0, "a", end - MINUTE * back) for back in (3, 2, 1)])
        note = {"writer": "shop", "time": end, "position": {"0": 3 * number}}
        controller.call("POST", f"/{topic}/notes", {"notes": [note]})
        query = (
            rows.writeStream.outputMode("append")
            .format("parquet")
            .option("path", str(tmp_path / "sink"))
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        read = read_committed_offsets(place, topic)
        found.append(complete_to(controller.url, topic, read).time)

    hop = why(controller.url, place).root
    written = spark.read.parquet(str(tmp_path / "sink")).count()
    last = [TEN + 2 * MINUTE - 2 * MINUTE, TEN + 5 * MINUTE - 2 * MINUTE]
    whole = [TEN + 3 * MINUTE, TEN + 6 * MINUTE]
    assert hop.complete_to == found[-1]
    assert (found, written) == ((last, 3) if has_state else (whole, 6))
