"""A Kafka topic with records of each second, and a query that counts them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_integration import CatchUp, Ingestion, KafkaRecords, read_noted_kafka, read_relayed_kafka
from tests.support.bundles import take_fields, take_noted
from tests.support.offset_log import read_plan
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.starting import retry_start

START_MS = 1_357_000_000_000
START_S = START_MS // 1000

Option = CatchUp | Ingestion
AnyClock = TypeVar("AnyClock", bound="Clock")


class Clock:
    """A topic whose records have their event times as timestamps, and a query that counts them."""

    def __init__(
        self, spark: SparkSession, broker: Broker, controller: Served, output: QueryOutput
    ) -> None:
        self.spark = spark
        self.broker = broker
        self.output = output
        self.name = name = f"clock-{uuid4().hex[:8]}"
        self.marks = controller.stream(name)
        self.ends: dict[int, int] = {}
        self.url = controller.url
        broker.create(name)

    def write(self, *seconds: int, partitions: tuple[int, ...] = (0, 1)) -> None:
        """Write two records of each second to each of the partitions."""
        rows = []
        for second in seconds:
            time = START_MS + 1000 * second
            for partition in partitions:
                rows.append((partition, str(second), time))
                rows.append((partition, str(second), time + 400))
                self.ends[partition] = self.ends.get(partition, 0) + 2
        self.broker.send(self.name, rows)

    def begin(self, partition: int, second: int) -> Producer:
        """Write a record in a transaction, which stays open."""
        time = START_MS + 1000 * second
        name = f"{self.name}-{partition}"
        self.ends[partition] = self.ends.get(partition, 0) + 2  # the second ends the transaction
        return begin_transaction(
            self.broker, self.name, "", name=name, partition=partition, timestamp=time
        )

    def note(self, second: int, **more: Any) -> None:  # noqa: ANN401 - any of a note
        """Note that all records before a second are written."""
        self.marks.note("w", START_MS + 1000 * second, self.ends, **more)

    def note_all(self, second: int) -> None:
        """Note the same with the largest event time, which bounds the mark."""
        self.note(second, max_time=START_MS + 1000 * second - 600)

    def read(self, *arguments: Option, **options: Any) -> DataFrame:  # noqa: ANN401 - any parameter
        """Return the records. If `is_relayed`, their marks come from the noted topic."""
        is_relayed = options.pop("relayed", False)
        place = {} if is_relayed else {"checkpoint_location": str(self.output.checkpoint)}
        chosen_options = {**place, "event_time": "timestamp", "strict": False, **options}
        noted_stream = take_noted(chosen_options, self.url)
        records = take_fields(
            KafkaRecords, chosen_options, topic=self.name, bootstrap=self.broker.address
        )
        read_topic: Callable[..., DataFrame] = (
            read_relayed_kafka if is_relayed else read_noted_kafka
        )
        return retry_start(
            lambda: read_topic(self.spark, records, noted_stream, *arguments, **chosen_options)
        )

    def run(self, *arguments: Option, **options: Any) -> None:  # noqa: ANN401 - any parameter
        """Read all records in a run of the query."""
        query = self.output.start(count_per_second(self.read(*arguments, **options), "timestamp"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    @property
    def whole(self) -> object:
        """Return the time from which on the query has all rows, by its last planned batch."""
        return (
            read_plan(self.output.checkpoint)[1]["noted_streams"][self.name]
            .get("facts", {})
            .get("whole")
        )

    def read_batch_plan(self, batch: int) -> tuple[int | None, dict[str, int]]:
        """Return the second of the mark of a batch, and the end of the batch."""
        _, marks, events = read_plan(self.output.checkpoint, batch)
        lower = marks["noted_streams"][self.name].get("mark", {}).get("lower")
        return None if lower is None else lower // 1000 - START_S, events[self.name]

    @property
    def counts(self) -> list[tuple[object, ...]]:
        return [(int(str(second)) - START_S, count) for second, count in self.output.rows]

    def fails(self, match: str, **options: Any) -> None:  # noqa: ANN401 - any parameter
        """Run the query, which must fail before it returns more."""
        before = self.counts
        with pytest.raises(PySparkException, match=match):
            self.run(**options)
        assert self.counts == before


class MakeClock(NamedTuple):
    """Creates topics of two partitions without a record, for one query."""

    spark: SparkSession
    broker: Broker
    controller: Served
    output: QueryOutput

    def __call__(self, kind: type[AnyClock]) -> AnyClock:
        return kind(*self)
