"""A batch read of the late rows of a Kafka topic."""

import random
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import AnotherLog, Mark, Rejected
from spark_integration import KafkaRecords, Noted, read_late_kafka
from tests.support.bundles import take_fields
from tests.support.http import read_json
from tests.support.spark_sessions import FAILED
from tools.trials.kafka import Broker
from tools.trials.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

START = 1_357_000_000_000
WRITERS = [f"w{n}" for n in range(6)]
LIARS = WRITERS[:3]
ROUNDS = range(8)


class Row(NamedTuple):
    """A written record."""

    writer: str
    partition: int
    offset: int
    time: int


class Late(NamedTuple):
    """A late row of a read."""

    writer: str | None
    partition: int
    offset: int
    seq: int
    lower: int


class LyingTopic:
    """A topic of three partitions, and six writers. Three of them lie."""

    def __init__(self, spark: SparkSession, broker: Broker, controller: Served) -> None:
        self.spark = spark
        self.broker = broker
        self.served = controller
        self.name = f"lied-{uuid4().hex[:8]}"
        self.rows: list[Row] = []
        broker.create(self.name, 3)
        controller.create(self.name)
        controller.post(self.name, *({"writer": writer} for writer in WRITERS))

    def send(self, *rows: tuple[str, int, int]) -> None:
        """Write (writer, partition, ms after the start), as timestamp and value."""
        producer = Producer(self.broker.config)
        for writer, partition, ms in rows:
            time_ms = START + ms
            offset = sum(row.partition == partition for row in self.rows)
            self.rows.append(Row(writer, partition, offset, time_ms))
            producer.produce(
                self.name, str(time_ms), writer, partition=partition, timestamp=time_ms
            )
        assert producer.flush(60) == 0

    def note(self, second: int, *writers: str) -> None:
        """Note a second and all written rows as these writers."""
        ends = {"0": 0, "1": 0, "2": 0}
        for row in self.rows:
            ends[str(row.partition)] += 1
        for writer in writers:
            time = START + 1000 * second
            self.served.post(self.name, {"writer": writer, "time": time, "position": ends})

    def write(self) -> None:
        """Write and note second by second. The liars also write rows below their noted times."""
        chance = random.Random(5)
        for second in ROUNDS:
            rows = []
            for writer in WRITERS:
                for _ in range(3):
                    partition = chance.randrange(3)
                    rows.append((writer, partition, 1000 * second + chance.randrange(2000)))
            for liar in LIARS if second else ():
                rows.append((liar, chance.randrange(3), chance.randrange(1000 * second)))
            chance.shuffle(rows)
            self.send(*rows)
            if second not in {3, 7}:  # no mark in between: the rows of two seconds lie together
                self.note(second + 1, *WRITERS)

    @property
    def marks(self) -> list[Mark]:
        """The kept marks."""
        return [read_json(Mark, json_mark) for json_mark in self.served.all_marks(self.name)]

    def find_late_rows(self, since: int | None = None) -> list[Late]:
        """Return the late rows, by a loop over rows and marks."""
        late_rows = []
        for row in self.rows:
            covers = [m for m in self.marks if m.cut.offsets.get(row.partition, 0) > row.offset]
            passed_marks = [m for m in self.marks if m not in covers and m.lower > row.time]
            is_old = since is not None and any(m.written_at < since for m in covers)
            if passed_marks and not is_old:
                other_marks = [mark for mark in self.marks if mark not in covers]
                last = max(other_marks, key=attrgetter("seq"))
                late_rows.append(Late(row.writer, row.partition, row.offset, last.seq, last.lower))
        return sorted(late_rows)

    def read(self, since: Any = None, **options: Any) -> DataFrame:  # noqa: ANN401 - any argument
        """Read the late rows."""
        chosen_options = {"event_time": "timestamp", "writer": "key", **options}
        records = take_fields(
            KafkaRecords, chosen_options, topic=self.name, bootstrap=self.broker.address
        )
        return read_late_kafka(
            self.spark, records, Noted(controller=self.served.url), since, **chosen_options
        )

    def late(self, since: Any = None, **options: Any) -> list[Late]:  # noqa: ANN401 - any argument
        """Return the late rows, in order."""
        ms = F.unix_millis("_lower")
        rows = self.read(since, **options).select("_writer", "partition", "offset", "_seq", ms)
        return sorted(Late(*row) for row in rows.collect())


@pytest.fixture
def topic(spark: SparkSession, broker: Broker, controller: Served) -> LyingTopic:
    """Return a topic without a record."""
    return LyingTopic(spark, broker, controller)


def test_late_rows_match_a_loop_over_rows_and_marks(topic: LyingTopic) -> None:
    """All lies are late rows, and no honest row is. A second read finds the same.

    Events at one offset are judged each by its own time. A read with `since` leaves out rows that
    older marks cover, so a nightly job reads the rest.
    """
    topic.write()
    committed_only = {"options": {"kafka.isolation.level": "read_committed"}}
    option_sets: list[dict[str, Any]] = [
        {},
        committed_only,
        {"parse": parse_twice, "event_time": "at"},
    ]
    late, *other_results = [topic.late(**options) for options in option_sets]
    since = topic.marks[3].written_at + 1
    recent = topic.late(datetime.fromtimestamp(since / 1000, UTC))

    lies = [row for row in topic.rows if row.time < START + 1000 * lowest(topic, row)]
    assert (late, other_results) == (topic.find_late_rows(), [late] * 2)
    assert len(late) == len(lies) >= 3 * (len(ROUNDS) - 2)
    assert {row.writer for row in late} == set(LIARS)
    assert recent == topic.find_late_rows(since)
    assert 0 < len(recent) < len(late)


def lowest(topic: LyingTopic, row: Row) -> int:
    """Return the largest second that all had noted when a row was written."""
    before = [m for m in topic.marks if m.cut.offsets.get(row.partition, 0) <= row.offset]
    return (before[-1].lower - START) // 1000 if before else 0


def test_writer_is_known_by_its_own_partition_without_a_column(topic: LyingTopic) -> None:
    """It is null if several writers noted a partition, or if the key names no known writer."""
    own_topic = f"{topic.name}-own"
    topic.served.create(own_topic)
    topic.send(("w0", 0, 100), ("w1", 1, 100))
    topic.served.post(own_topic, {"writer": "w0"}, {"writer": "w1"})
    for writer, position in (("w0", {"0": 1}), ("w1", {"1": 1, "2": 0})):
        topic.served.post(own_topic, {"writer": writer, "time": START + 1000, "position": position})
    topic.send(("w0", 0, 500), ("w1", 1, 600), ("x", 2, 700), ("w1", 2, 1000))

    def read(**options: Any) -> list[str | None]:  # noqa: ANN401 - any argument
        records = KafkaRecords(topic.name, topic.broker.address)
        noted_stream = Noted(own_topic, controller=topic.served.url)
        frame = read_late_kafka(
            topic.spark, records, noted_stream, event_time="timestamp", **options
        )
        return [row["_writer"] for row in frame.orderBy("partition").collect()]

    assert read() == ["w0", "w1", "w1"]
    assert read(writer="key") == ["w0", "w1", None]
    topic.served.post(own_topic, {"writer": "w1", "position": {"0": 1}})
    assert read() == [None, "w1", "w1"]


def test_mark_beyond_sparks_time_is_at_its_end(topic: LyingTopic) -> None:
    """No later time exists, so each row that such a mark does not cover is late."""
    topic.served.create(topic.name, max_time_ahead_ms=None)
    topic.send(("w0", 0, 1))
    topic.note(2**52, *WRITERS)
    topic.send(("w0", 0, 2))

    (late,) = topic.late()
    assert late == Late("w0", 0, 1, 1, 253_402_300_799_999)


def test_rows_removed_by_retention_are_logged(
    topic: LyingTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """They may have been late. The log also names rows below the first kept mark."""
    topic.write()
    everything = topic.find_late_rows()
    topic.broker.truncate(topic.name, {0: topic.marks[-1].cut.offsets[0] - 1})
    late = topic.late()
    cut = {str(p): offset for p, offset in topic.marks[2].cut.offsets.items()}
    topic.served.call("POST", f"/{topic.name}/truncate", {"cut": cut})
    topic.late()

    begin = topic.marks[-1].cut.offsets[0] - 1
    assert late == [row for row in everything if row.partition or row.offset >= begin]
    assert "partition 0: the records from" in caplog.text
    assert f"late rows below the cut of mark {topic.marks[0].seq}, written" in caplog.text


def parse_twice(records: DataFrame) -> DataFrame:
    """Return two events for each record. The time of the second is never late."""
    event_time = F.expr("timestamp_millis(CAST(CAST(value AS string) AS bigint))")
    times = F.array(event_time, F.timestamp_millis(F.lit(START + 10**9)))
    return records.select("partition", "offset", "key", F.explode(times).alias("at"))


def drop_partition(records: DataFrame) -> DataFrame:
    return records.select("timestamp", "offset")


def add_seq(records: DataFrame) -> DataFrame:
    return records.withColumn("_seq", F.lit(1))


@pytest.mark.parametrize(
    ("parse", "says"),
    [(drop_partition, "no column partition"), (add_seq, "already have a column _seq")],
)
def test_events_keep_partition_and_offset(topic: LyingTopic, parse: Any, says: str) -> None:  # noqa: ANN401
    """The events must not have the added columns."""
    topic.send(("w0", 0, 1))
    topic.note(1, *WRITERS)

    with pytest.raises(Rejected, match=says):
        topic.read(parse=parse)


def test_marks_of_another_topic_make_no_row_late(topic: LyingTopic) -> None:
    """The topic's id shows it. Several topics have no common marks."""
    topic.send(("w0", 0, 1))
    note = {"writer": "w0", "time": START + 9, "log": "AAAAAAAAAAAAAAAAAAAAAQ"}
    topic.served.post(topic.name, note)
    topic.note(1, *WRITERS)

    with pytest.raises(AnotherLog):
        topic.read()
    with pytest.raises(Rejected, match="read_late_kafka reads one topic"):
        topic.read(topic=["a", "b"])


def test_record_without_a_time_fails_the_read(topic: LyingTopic) -> None:
    """No mark covers such a record, so it is neither late nor in time."""
    topic.send(("w0", 0, 1))
    topic.note(1, *WRITERS)
    topic.send(("w0", 0, 1))

    def add_nothing(records: DataFrame) -> DataFrame:
        return records.withColumn("at", F.lit(None).cast("timestamp"))

    with pytest.raises(FAILED, match="has no event time"):
        topic.read(parse=add_nothing, event_time="at", writer=None).collect()
