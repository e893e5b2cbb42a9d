"""How far a Spark query without our sources has written a topic, on a real broker."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from reader_client import complete_to, why
from spark_integration.checkpoint.committed import read_committed_offsets
from tests.support.query_output import QueryOutput
from tools.trials.kafka import Broker
from tools.trials.served import Served

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
    stream = controller.stream(topic)
    stream.note("shop", TEN, {0: 0})
    place = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    reader = spark.readStream.format("kafka").options(**place, startingOffsets="earliest")
    events = reader.load()
    queries = {"plain": events.select("value"), "counts": count_minutes(events)}
    outputs = {name: QueryOutput(tmp_path / name) for name in queries}
    times_by_name: dict[str, list[int | None]] = {name: [] for name in queries}
    for number in (1, 2):
        end = TEN + 3 * number * MINUTE
        broker.send(topic, [(0, "a", end - MINUTE * minutes_back) for minutes_back in (3, 2, 1)])
        stream.note("shop", end, {0: 3 * number})
        for name, output in outputs.items():
            output.catch_up(queries[name])
            committed_offsets = read_committed_offsets(str(output.checkpoint), topic)
            times_by_name[name].append(
                complete_to(topic, committed_offsets, controller=controller.url).complete_to
            )

    hops = [
        why(str(output.checkpoint), controller=controller.url).root for output in outputs.values()
    ]
    assert times_by_name == {
        "plain": [TEN + 3 * MINUTE, TEN + 6 * MINUTE],
        "counts": [TEN, TEN + 3 * MINUTE],
    }
    assert [hop.complete_to for hop in hops] == [times[-1] for times in times_by_name.values()]
    assert {name: len(output.rows) for name, output in outputs.items()} == {"plain": 6, "counts": 3}
