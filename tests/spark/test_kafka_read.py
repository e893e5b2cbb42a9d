"""Queries that read Kafka topics with marks in the micro-batch of their rows, on a real broker."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import read_noted_kafka
from tests.support.kafka import Broker
from tests.support.queries import per_second
from tests.support.query_output import QueryOutput
from tests.support.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

START_MS = 1_357_000_000_000
START_S = START_MS // 1000


class Clock:
    """A topic whose records have their event times as timestamps, and what a query counts of it."""

    def __init__(
        self, spark: SparkSession, broker: Broker, controller: Served, output: QueryOutput
    ) -> None:
        self.spark, self.broker, self.output = spark, broker, output
        self.name = name = f"clock-{uuid4().hex[:8]}"
        self.marks = controller.stream(name)
        self.ends: dict[int, int] = {}
        self._url = controller.url
        broker.create(name)

    def write(self, *seconds: int, partitions: tuple[int, ...] = (0, 1)) -> None:
        """Write two records of each second to each of the partitions."""
        rows = [
            (partition, str(second), START_MS + 1000 * second + 400 * n)
            for second in seconds
            for partition in partitions
            for n in range(2)
        ]
        self.broker.send(self.name, rows)
        for partition, _, _ in rows:
            self.ends[partition] = self.ends.get(partition, 0) + 1

    def note(self, second: int) -> None:
        """Note that all before a second is written."""
        self.marks.note("w", START_MS + 1000 * second, self.ends)

    def read(self, **asked: Any) -> DataFrame:  # noqa: ANN401 - any parameter
        """Return the records."""
        return read_noted_kafka(
            self.spark,
            self.name,
            **{
                "bootstrap": self.broker.address,
                "controller_url": self._url,
                "checkpoint_location": str(self.output.checkpoint),
                "event_time": "timestamp",
                "strict": False,
                **asked,
            },
        )

    def run(self, **asked: Any) -> None:  # noqa: ANN401 - any parameter
        """Read what there is, in a run of the query."""
        query = self.output.start(per_second(self.read(**asked), "timestamp"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def planned(self, batch: int) -> tuple[int | None, dict[str, int]]:
        """Return the second of the mark of a batch, and where the batch ends."""
        lines = (self.output.checkpoint / "offsets" / str(batch)).read_text().split("\n")
        mark, events = json.loads(lines[2])["mark"], json.loads(lines[3])
        lower = mark["lower"]
        return None if lower is None else lower // 1000 - START_S, events[self.name]

    @property
    def counts(self) -> list[tuple[object, ...]]:
        """The counts of the seconds that are over."""
        return [(int(str(second)) - START_S, count) for second, count in self.output.rows]


@pytest.fixture
def clock(
    spark: SparkSession,
    broker: Broker,
    controller: Served,
    output: QueryOutput,
) -> Clock:
    """Return a topic of two partitions without a record."""
    return Clock(spark, broker, controller, output)


def test_a_mark_comes_in_the_micro_batch_of_its_rows(clock: Clock) -> None:
    """As soon as the query has read once, so that its offset log names the partitions."""
    clock.write(0)
    clock.note(1)
    clock.run()
    clock.write(1, 2)
    clock.note(3)
    before = max(clock.output.batches)
    clock.run()

    assert clock.planned(before)[1] == {"0": 2, "1": 2}
    assert clock.planned(before + 1) == (3, {"0": 6, "1": 6})
    assert clock.counts == [(0, 4), (1, 4), (2, 4)]


def departures(records: DataFrame) -> DataFrame:
    """Parse records that name a second of departure."""
    event = F.from_json(F.col("value").cast("string"), "departure TIMESTAMP, origin STRING")
    return records.select(event.alias("event")).select("event.*")


def test_a_record_without_the_field_fails_the_query_with_its_offset(clock: Clock) -> None:
    """Though the parsed events have no column that says where it is."""
    there = '{"departure": "2013-01-01T09:00:00Z", "origin": "EWR"}'
    clock.broker.send(clock.name, [(1, there, 0), (1, '{"origin": "EWR"}', 0)])
    clock.note(1)
    events = clock.read(event_time="departure", parse=departures)
    query = clock.output.start(per_second(events, "departure"))

    with pytest.raises(PySparkException, match="no event time in column departure") as failed:
        query.processAllAvailable()
    assert f"a record of topic {clock.name}, partition 1, offset 1 has" in str(failed.value)
