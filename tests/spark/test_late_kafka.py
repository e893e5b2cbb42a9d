"""A batch read of the late rows of a Kafka topic finds exactly those that marks went past."""

import random
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.kafka import Broker
from demo.trials.served import Served
from noted_time import AnotherLog, Mark, Rejected
from spark_integration import KafkaRecords, Noted, read_late_kafka
from tests.support.bundles import taken
from tests.support.http import read_json
from tests.support.spark_sessions import FAILED

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

START = 1_357_000_000_000
WRITERS = [f"w{n}" for n in range(6)]
LIARS = WRITERS[:3]
ROUNDS = range(8)


class Row(NamedTuple):
    """A record, as it was written."""

    writer: str
    partition: int
    offset: int
    time: int


class Late(NamedTuple):
    """A late row, as it was read."""

    writer: str | None
    partition: int
    offset: int
    seq: int
    lower: int


class Lied:
    """A topic of three partitions, and six writers, of which three lie."""

    def __init__(self, spark: SparkSession, broker: Broker, controller: Served) -> None:
        self.spark, self.broker, self.served = spark, broker, controller
        self.name = f"lied-{uuid4().hex[:8]}"
        self.rows: list[Row] = []
        broker.create(self.name, 3)
        controller.create(self.name)
        controller.post(self.name, *({"writer": writer} for writer in WRITERS))

    def send(self, *rows: tuple[str, int, int]) -> None:
        """Write (writer, partition, ms after the start), as timestamp and value."""
        producer = Producer(self.broker.config)
        for writer, partition, ms in rows:
            at = START + ms
            offset = sum(each.partition == partition for each in self.rows)
            self.rows.append(Row(writer, partition, offset, at))
            producer.produce(self.name, str(at), writer, partition=partition, timestamp=at)
        assert producer.flush(60) == 0

    def note(self, second: int, *writers: str) -> None:
        """Have writers note a second and all that is written."""
        ends = {str(p): sum(each.partition == p for each in self.rows) for p in range(3)}
        for writer in writers:
            time = START + 1000 * second
            self.served.post(self.name, {"writer": writer, "time": time, "position": ends})

    def write(self) -> None:
        """Write and note second by second; the liars also write what they had noted."""
        chance = random.Random(5)
        for second in ROUNDS:
            honest = [
                (writer, chance.randrange(3), 1000 * second + chance.randrange(2000))
                for writer in WRITERS
                for _ in range(3)
            ]
            lies = [
                (liar, chance.randrange(3), chance.randrange(1000 * second))
                for liar in LIARS
                if second
            ]
            mixed = [*honest, *lies]
            chance.shuffle(mixed)
            self.send(*mixed)
            if second not in {3, 7}:  # no mark in between: the rows of two seconds lie together
                self.note(second + 1, *WRITERS)

    @property
    def marks(self) -> list[Mark]:
        """The marks that are kept."""
        return [read_json(Mark, each) for each in self.served.all_marks(self.name)]

    def expected(self, since: int | None = None) -> list[Late]:
        """Return the late rows, by a loop over rows and marks."""
        found = []
        for row in self.rows:
            covers = [m for m in self.marks if m.cut.offsets.get(row.partition, 0) > row.offset]
            passed = [m for m in self.marks if m not in covers and m.lower > row.time]
            is_old = since is not None and any(m.written_at < since for m in covers)
            if passed and not is_old:
                last = max((m for m in self.marks if m not in covers), key=lambda m: m.seq)
                found.append(Late(row.writer, row.partition, row.offset, last.seq, last.lower))
        return sorted(found)

    def read(self, since: Any = None, **asked: Any) -> DataFrame:  # noqa: ANN401 - any argument
        """Read the late rows."""
        chosen = {"event_time": "timestamp", "writer": "key", **asked}
        records = taken(KafkaRecords, chosen, topic=self.name, bootstrap=self.broker.address)
        return read_late_kafka(self.spark, records, Noted(self.served.url), since, **chosen)

    def late(self, since: Any = None, **asked: Any) -> list[Late]:  # noqa: ANN401 - any argument
        """Return the late rows, in order."""
        ms = F.unix_millis("_lower")
        rows = self.read(since, **asked).select("_writer", "partition", "offset", "_seq", ms)
        return sorted(Late(*row) for row in rows.collect())


@pytest.fixture
def lied(spark: SparkSession, broker: Broker, controller: Served) -> Lied:
    """Return a topic without a record."""
    return Lied(spark, broker, controller)


def test_late_rows_match_a_loop_over_rows_and_marks(lied: Lied) -> None:
    """Each lie is among them, and nothing of an honest writer; twice it is the same.

    Events that lie at one offset are judged each by its own time. What marks covered before a
    moment, by the controller's clock, is left out on request, so a nightly job reads the rest.
    """
    lied.write()
    committed = {"options": {"kafka.isolation.level": "read_committed"}}
    asked: list[dict[str, Any]] = [{}, committed, {"parse": parsed, "event_time": "at"}]
    late, *others = [lied.late(**each) for each in asked]
    since = lied.marks[3].written_at + 1
    recent = lied.late(datetime.fromtimestamp(since / 1000, UTC))

    lies = [row for row in lied.rows if row.time < START + 1000 * lowest(lied, row)]
    assert (late, others) == (lied.expected(), [late] * 2)
    assert len(late) == len(lies) >= 3 * (len(ROUNDS) - 2)
    assert {each.writer for each in late} == set(LIARS)
    assert recent == lied.expected(since)
    assert 0 < len(recent) < len(late)


def lowest(lied: Lied, row: Row) -> int:
    """Return the largest second that all had noted when a row was written."""
    before = [m for m in lied.marks if m.cut.offsets.get(row.partition, 0) <= row.offset]
    return (before[-1].lower - START) // 1000 if before else 0


def test_writer_is_known_by_its_own_partition_without_a_column(lied: Lied) -> None:
    """And where several noted a partition it is null, as is a column's name that nobody has."""
    own = f"{lied.name}-own"
    lied.served.create(own)
    lied.send(("w0", 0, 100), ("w1", 1, 100))
    lied.served.post(own, {"writer": "w0"}, {"writer": "w1"})
    for writer, position in (("w0", {"0": 1}), ("w1", {"1": 1, "2": 0})):
        lied.served.post(own, {"writer": writer, "time": START + 1000, "position": position})
    lied.send(("w0", 0, 500), ("w1", 1, 600), ("x", 2, 700), ("w1", 2, 1000))

    def read(**asked: Any) -> list[str | None]:  # noqa: ANN401 - any argument
        records = KafkaRecords(lied.name, lied.broker.address)
        noted = Noted(lied.served.url, own)
        frame = read_late_kafka(lied.spark, records, noted, event_time="timestamp", **asked)
        return [row["_writer"] for row in frame.orderBy("partition").collect()]

    assert read() == ["w0", "w1", "w1"]
    assert read(writer="key") == ["w0", "w1", None]
    lied.served.post(own, {"writer": "w1", "position": {"0": 1}})
    assert read() == [None, "w1", "w1"]


def test_mark_beyond_sparks_time_is_at_its_end(lied: Lied) -> None:
    """It has no later times, so each row that such a mark does not cover is late."""
    lied.served.create(lied.name, max_time_ahead_ms=None)
    lied.send(("w0", 0, 1))
    lied.note(2**52, *WRITERS)
    lied.send(("w0", 0, 2))

    (late,) = lied.late()
    assert late == Late("w0", 0, 1, 1, 253_402_300_799_999)


def test_rows_removed_by_retention_are_logged(lied: Lied, caplog: pytest.LogCaptureFixture) -> None:
    """Late rows may have been among them; likewise below the first mark that is kept."""
    lied.write()
    everything = lied.expected()
    lied.broker.truncate(lied.name, {0: lied.marks[-1].cut.offsets[0] - 1})
    late = lied.late()
    cut = {str(p): offset for p, offset in lied.marks[2].cut.offsets.items()}
    lied.served.call("POST", f"/{lied.name}/truncate", {"cut": cut})
    lied.late()

    begin = lied.marks[-1].cut.offsets[0] - 1
    assert late == [each for each in everything if each.partition or each.offset >= begin]
    assert "partition 0: the records from" in caplog.text
    assert f"late rows below the cut of mark {lied.marks[0].seq}, written" in caplog.text


def parsed(records: DataFrame) -> DataFrame:
    """Return events with two rows of each record, of which one has a time that is never late."""
    at = F.expr("timestamp_millis(CAST(CAST(value AS string) AS bigint))")
    times = F.array(at, F.timestamp_millis(F.lit(START + 10**9)))
    return records.select("partition", "offset", "key", F.explode(times).alias("at"))


@pytest.mark.parametrize(
    ("parse", "says"),
    [
        (lambda records: records.select("timestamp", "offset"), "no column partition"),
        (lambda records: records.withColumn("_seq", F.lit(1)), "already have a column _seq"),
    ],
)
def test_events_keep_partition_and_offset(lied: Lied, parse: Any, says: str) -> None:  # noqa: ANN401
    """And have no columns of the names that are added."""
    lied.send(("w0", 0, 1))
    lied.note(1, *WRITERS)

    with pytest.raises(Rejected, match=says):
        lied.read(parse=parse)


def test_marks_of_another_topic_make_no_row_late(lied: Lied) -> None:
    """By its id; and several topics have no marks of one stream."""
    lied.send(("w0", 0, 1))
    note = {"writer": "w0", "time": START + 9, "log": "AAAAAAAAAAAAAAAAAAAAAQ"}
    lied.served.post(lied.name, note)
    lied.note(1, *WRITERS)

    with pytest.raises(AnotherLog):
        lied.read()
    with pytest.raises(Rejected, match="read_late_kafka reads one topic"):
        lied.read(topic=["a", "b"])


def test_record_without_a_time_fails_the_read(lied: Lied) -> None:
    """As no mark vouches for it, it is neither late nor in time."""
    lied.send(("w0", 0, 1))
    lied.note(1, *WRITERS)
    lied.send(("w0", 0, 1))
    nothing = F.lit(None).cast("timestamp")

    with pytest.raises(FAILED, match="has no event time"):
        lied.read(
            parse=lambda rows: rows.withColumn("at", nothing), event_time="at", writer=None
        ).collect()
