"""Queries with marks from a noted topic, without Python in their plans."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Mark, Rejected, StreamCut
from noted_time.kafka.noted_topic import NotedRecord, name_noted_topic
from reader_client import KafkaRelay
from spark_integration import WatermarkPolicy
from spark_integration.kafka.topic_marks import WantedMarks
from spark_integration.marks.watermark import LAST_MS
from tests.support.clock import START_MS, Clock, MakeClock, Option
from tests.support.offset_log import read_plan
from tests.support.queries import count_per_second
from tests.support.spark_sessions import FAILED
from tests.support.topic_scenarios import play, read_scenarios
from tools.trials.waiting import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.acceptance,
    pytest.mark.needs_spark("3.5"),
    pytest.mark.shows("read_relayed_kafka"),
]

ASKED = WantedMarks({"flights": "flights"}, {"flights": None}, {}, {}, WatermarkPolicy())
HELD = WatermarkPolicy(strict=False, on_seal="hold")
MARK = NotedRecord("flights", "9f", "default", None, Mark(1, 50, 50, StreamCut({0: 1})))


class NotedClock(Clock):
    """A clock with marks in a noted topic, as a relay writes them."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - a clock's
        super().__init__(*arguments)
        self.noted = name_noted_topic(self.name)
        self.broker.create(self.noted, 1)

    def note(self, second: int, domain: str = "default", **more: Any) -> None:  # noqa: ANN401 - a mark's
        """Write a mark, of all that is written by now."""
        lower = START_MS + 1000 * second
        mark = Mark(1, lower, lower, StreamCut(dict(self.ends)), 0, **more)
        record = NotedRecord(self.name, "9f", domain, None, mark)
        self.put(record.value, domain)

    def put(self, value: bytes | None, key: str | None = "default") -> None:
        """Write a record into the noted topic."""
        self.broker.send(self.noted, [(0, value, 0)], key)

    def read(self, *arguments: Option, **options: Any) -> DataFrame:  # noqa: ANN401 - any parameter
        """Return the records."""
        return super().read(*arguments, **{"relayed": True, "controller": "", **options})

    def ends_of(self, batch: int) -> list[dict[str, dict[str, int]]]:
        """Return where the sources end in a batch, in the order of the plan."""
        return read_plan(self.output.checkpoint, batch)[1:]


@pytest.fixture
def clock(make_clock: MakeClock) -> NotedClock:
    """Return a topic of two partitions without a record, and without a mark."""
    return make_clock(NotedClock)


@pytest.fixture
def other(make_clock: MakeClock) -> NotedClock:
    """Return a second one, for the same query."""
    return make_clock(NotedClock)


Rows = Sequence[tuple[str | None, bytes | None]]


def read_lowers(
    spark: SparkSession,
    rows: Rows,
    asked: WantedMarks = ASKED,
    **options: Any,  # noqa: ANN401
) -> list[int]:
    """Return what (key, value) stand for, in order of their offsets from 7 on."""
    record_rows = [("flights.noted", 7 + n, key, value) for n, (key, value) in enumerate(rows)]
    schema = "topic STRING, offset LONG, key STRING, value BINARY"
    records = spark.createDataFrame(record_rows, schema)
    lowers = asked.select_lowers("flights", records, **options)
    return [row.lower for row in lowers.collect()]


def make_record(lower: int, domain: str = "default", *, final: bool = False) -> tuple[str, bytes]:
    """Return a record."""
    mark = structs.replace(MARK.mark, lower=lower, final=final)
    return domain, structs.replace(MARK, domain=domain, mark=mark).value


def test_mark_gives_its_lower_and_seal_the_end_of_time(spark: SparkSession) -> None:
    """A strict lower is 1 ms less. Marks of other domains and inexpressible marks are left out."""
    rows = [
        make_record(50),
        make_record(70, "ingestion"),
        make_record(2**62),
        make_record(-(2**63)),
        make_record(60, final=True),
    ]

    assert read_lowers(spark, rows) == [49, LAST_MS]
    assert read_lowers(spark, rows, replace(ASKED, policy=HELD)) == [50, 60]
    assert read_lowers(spark, rows, replace(ASKED, domains={"flights": "ingestion"})) == [69]
    assert read_lowers(spark, rows, replace(ASKED, policy=HELD, lag_ms=20)) == [30, 40]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("default", None, "has no value"),
        ("default", b"{", "is no mark"),
        ("default", b"[1]", "is no mark"),
        ("default", structs.replace(MARK, stream="trains").value, "is of stream trains"),
        ("ingestion", MARK.value, "has another key than its domain"),
        (None, MARK.value, "has another key than its domain"),
        ("default", b'{"stream": "flights", "lower": 5}', "has another key than its domain"),
        ("default", MARK.value.replace(b'"lower":50', b'"lower":5.5'), "has no integer as its low"),
        ("default", MARK.value.replace(b'"lower":50', b'"lower":"5"'), "has no integer as its low"),
        ("default", MARK.value.replace(b'"lower":50', b'"low":50'), "has no integer as its lower"),
    ],
)
def test_foreign_record_of_the_noted_topic_fails_the_query(
    spark: SparkSession, key: str | None, value: bytes | None, says: str
) -> None:
    """The error names its place, the expected stream and the remedy."""
    with pytest.raises(FAILED, match="the record at offset 8 of Kafka topic") as failure:
        read_lowers(spark, [make_record(50), (key, value)])
    for part in ("'flights.noted' " + says, "marks of stream 'flights'", "delete this topic"):
        assert part in str(failure.value)


def test_mark_of_another_topic_is_refused(spark: SparkSession) -> None:
    """A broker without ids gives none."""
    asked = replace(ASKED, logs={"flights": ["l-N_h", "old"]})
    own_rows = [
        ("default", structs.replace(MARK, topic_id=topic_id).value)
        for topic_id in ("l-N_h", "old", None)
    ]

    assert read_lowers(spark, own_rows, asked) == [49, 49, 49]
    with pytest.raises(
        FAILED, match="is of a topic with the id a-b, and this one has l-N_h or old"
    ):
        read_lowers(spark, [("default", structs.replace(MARK, topic_id="a-b").value)], asked)


def test_unnamed_domain_must_be_the_default(spark: SparkSession) -> None:
    """Otherwise the query would wait forever."""
    rows = [make_record(70, "ingestion")]

    assert read_lowers(spark, rows) == []
    with pytest.raises(FAILED, match="is of domain ingestion, and the call names no"):
        read_lowers(spark, rows, named=False)


def test_mark_comes_in_the_batch_of_its_rows_without_python(
    clock: NotedClock, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's own source reads both topics, and the marks first."""
    clock.write(0)
    clock.note(1)
    clock.run()
    clock.write(1, 2)
    clock.note(3)
    before = max(clock.output.batches)
    clock.run()
    clock.read().explain()

    assert clock.ends_of(before + 1) == [{clock.noted: {"0": 2}}, {clock.name: {"0": 6, "1": 6}}]
    assert clock.counts == [(0, 4), (1, 4), (2, 4)]
    plan = capfd.readouterr().out
    assert plan.count("StreamingRelation kafka") == 2
    assert "python" not in plan.lower()


def test_tombstone_fails_a_query_without_columns_of_the_marks(clock: NotedClock) -> None:
    """No filter or column of the user makes Spark skip the check."""
    clock.write(0)
    clock.note(1)
    events = clock.read().where("value = 'none' AND timestamp > '2000-01-01'").select("timestamp")
    query = clock.output.start(count_per_second(events, "timestamp"))
    query.processAllAvailable()
    clock.put(None)

    with pytest.raises(PySparkException, match=f"offset 1 of Kafka topic '{clock.noted}' has no v"):
        query.processAllAvailable()


def test_relay_waits_for_a_transaction_that_a_mark_covers(make_clock: MakeClock) -> None:
    """A query that reads only committed records loses none of them, over a restart."""
    clock = make_clock(Clock)
    clock.marks.note("w", START_MS, {})
    options = {"kafka.isolation.level": "read_committed"}
    asked: dict[str, Any] = {"relayed": True, "options": options}
    with closing(
        KafkaRelay(clock.broker.config, clock.name, controller=clock.url, new_partition_ms=0)
    ) as relay:
        wait_until(lambda: relay_marks(relay, clock) == 1)
        hanging = clock.begin(0, 1)
        clock.write(0, 1)
        clock.note(2)
        clock.run(**asked)
        counts_and_marks = clock.counts, relay_marks(relay, clock)
        hanging.commit_transaction(60)
        wait_until(lambda: relay_marks(relay, clock) == 2)
    clock.run(**asked)

    assert counts_and_marks == ([], 1)
    assert clock.counts == [(0, 4), (1, 5)]


def relay_marks(relay: KafkaRelay, clock: Clock) -> int:
    """Let a relay poll, and return the number of marks."""
    relay.look()
    is_noted = relay.noted.name in clock.broker.topics()
    return len(clock.broker.records(relay.noted.name)) if is_noted else 0


def test_join_of_two_topics_is_exact_and_closed_by_seals(
    clock: NotedClock, other: NotedClock
) -> None:
    """The seals give out a last row without a partner."""
    for seconds, final in ((0, 1), False), ((2, 3), True):
        clock.write(*seconds, partitions=(0,))
        clock.note(seconds[-1] + 1, final=final)
        other.write(*seconds[: 1 if final else 2], partitions=(1,))
        other.note(seconds[-1] + 1, final=final)
        left = clock.read(strict=True).select(F.col("timestamp").alias("one"))
        two = other.read(strict=True).select(F.col("timestamp").alias("two"))
        joined_rows = left.join(two, F.expr("one = two"), "left_outer")
        query = clock.output.start(joined_rows.select(F.unix_millis("one"), F.unix_millis("two")))
        query.processAllAvailable()
        query.stop()

    pairs: list[tuple[int, int | None]] = []
    for second in range(4):
        for ms in (0, 400):
            time = START_MS + 1000 * second + ms
            pairs.append((time, time if second < 3 else None))
    assert clock.output.rows == pairs


@pytest.mark.parametrize("acts", read_scenarios("noted"))
def test_scenario(make_clock: MakeClock, caplog: pytest.LogCaptureFixture, acts: list[str]) -> None:
    """See `topics/noted.txt`."""
    play(make_clock, NotedClock, caplog, acts)


def test_topic_without_a_noted_topic_is_refused_in_the_call(clock: NotedClock) -> None:
    clock.broker.create("unnoted")

    with pytest.raises(Rejected, match=r"run `noted-time relay kafka 127.* unnoted`"):
        clock.read(topic="unnoted")
