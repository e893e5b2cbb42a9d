"""How far a Spark query without our sources has written a topic, on a real broker."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from demo.trials.kafka import Broker
from demo.trials.served import Served
from reader_client import complete_to, why
from spark_integration.checkpoint.committed import read_committed_offsets

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]
TEN = 1_357_034_400_000
MINUTE = 60_000


def count_minutes(events: DataFrame) -> DataFrame:
    """Return the number of events in each minute, by Spark's own watermark."""
    minutes = window("timestamp", "1 minute")
    return events.withWatermark("timestamp", "2 minutes").groupBy(minutes).count()


def test_query_is_complete_to_its_last_commit(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """A query with state is complete to its watermark at most.

    Two of each three minutes are below it.
    """
    topic = uuid4().hex
    broker.create(topic, 1)
    controller.create(topic)
    controller.post(topic, {"writer": "shop", "time": TEN, "position": {"0": 0}})
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    queries = {"plain": events.select("value"), "counts": count_minutes(events)}
    places = {name: str(tmp_path / f"{name}-checkpoint") for name in queries}
    found: dict[str, list[int | None]] = {name: [] for name in queries}
    for number in (1, 2):
        end = TEN + 3 * number * MINUTE
        broker.send(topic, [(0, "a", end - MINUTE * back) for back in (3, 2, 1)])
        note = {"writer": "shop", "time": end, "position": {"0": 3 * number}}
        controller.call("POST", f"/{topic}/notes", {"notes": [note]})
        running = [
            rows.writeStream.outputMode("append")
            .format("parquet")
            .option("path", str(tmp_path / name))
            .option("checkpointLocation", places[name])
            .trigger(availableNow=True)
            .start()
            for name, rows in queries.items()
        ]
        for query in running:
            query.awaitTermination()
        for name, place in places.items():
            read = read_committed_offsets(place, topic)
            found[name].append(complete_to(controller.url, topic, read).complete_to)

    hops = {name: why(controller.url, place).root for name, place in places.items()}
    written = {name: spark.read.parquet(str(tmp_path / name)).count() for name in queries}
    assert found == {
        "plain": [TEN + 3 * MINUTE, TEN + 6 * MINUTE],
        "counts": [TEN, TEN + 3 * MINUTE],
    }
    assert {name: hop.complete_to for name, hop in hops.items()} == {
        name: times[-1] for name, times in found.items()
    }
    assert written == {"plain": 6, "counts": 3}
