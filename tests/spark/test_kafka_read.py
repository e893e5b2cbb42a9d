"""Queries on Kafka topics with marks in the micro-batch of their rows, on a real broker."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.waiting import eventually, wait_until
from noted_time import BacklogPolicy, Rejected
from spark_integration import Batches, CatchUp, Columns, Ingestion, ReadRange
from tests.support.clock import START_MS, Clock
from tests.support.offset_log import list_batches, read_plan
from tests.support.queries import count_per_second
from writer_client import IngestionNoter, KafkaEnds, WriterClient

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.shows("read_noted_kafka")]


def test_mark_comes_in_the_micro_batch_of_its_rows(clock: Clock) -> None:
    """The query has read once before, so its offset log names the partitions."""
    clock.write(0)
    clock.note(1)
    clock.run()
    clock.write(1, 2)
    clock.note(3)
    before = max(clock.output.batches)
    clock.run()

    assert clock.read_batch_plan(before)[1] == {"0": 2, "1": 2}
    assert clock.read_batch_plan(before + 1) == (3, {"0": 6, "1": 6})
    assert clock.counts == [(0, 4), (1, 4), (2, 4)]


def test_password_of_the_client_is_in_no_file_and_no_plan(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    clock.write(0)
    clock.note(1)
    secret = uuid4().hex
    asked = {"client": {"sasl.username": "reader", "sasl.password": secret}}
    clock.run(**asked)
    clock.read(**asked).explain(extended=True)

    kept = [file for file in clock.output.checkpoint.rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if secret.encode() in file.read_bytes()]
    shown = capfd.readouterr()
    assert "client_secret" in shown.out
    assert secret not in shown.out + shown.err


def departures(records: DataFrame) -> DataFrame:
    """Parse records with a second of departure."""
    event = F.from_json(F.col("value").cast("string"), "departure TIMESTAMP, origin STRING")
    return records.select(event.alias("event")).select("event.*")


def test_record_without_the_field_fails_with_its_offset(clock: Clock) -> None:
    """The parsed events have no columns for the partition and the offset."""
    there = '{"departure": "2013-01-01T09:00:00Z", "origin": "EWR"}'
    clock.broker.send(clock.name, [(1, there, 0), (1, '{"origin": "EWR"}', 0)])
    clock.note(1)
    events = clock.read(event_time="departure", parse=departures)
    query = clock.output.start(count_per_second(events, "departure"))

    with pytest.raises(PySparkException, match="no event time in column departure") as failed:
        query.processAllAvailable()
    assert f"a record of topic {clock.name}, partition 1, offset 1 has" in str(failed.value)


def test_record_without_a_timestamp_fails_with_its_offset(clock: Clock) -> None:
    """Kafka's timestamp of such a record is -1."""
    clock.broker.send(clock.name, [(0, "early", -1)])

    clock.fails(f"a record of topic {clock.name}, partition 0, offset 0 has no event time")


def test_added_partitions_and_limited_rate_lose_nothing(clock: Clock) -> None:
    """Partitions are added in a run and between runs; a crash and a limit follow."""
    clock.grow_while_read()
    clock.broker.grow(clock.name, 4)
    clock.write(2, 3, partitions=(0, 1, 2, 3))
    clock.note(4)
    clock.output.forget_commit()
    clock.run()
    clock.write(4, 5, partitions=(0, 1, 2, 3))
    clock.note(6)
    clock.run(options={"MaxOffsetsPerTrigger": 3})
    clock.write(6, partitions=(0, 1, 2, 3))
    clock.note(7)
    clock.output.catch_up(count_per_second(clock.read(), "timestamp"))

    assert clock.counts == [(0, 4), (1, 6), *((second, 8) for second in range(2, 7))]


def test_topic_that_was_recreated_fails_the_query(clock: Clock) -> None:
    """The new topic is longer than the old one, so its offsets do not show it."""
    clock.write(0)
    clock.note(1)
    clock.run()
    clock.broker.create(clock.name)
    clock.write(1, 2, 3)
    clock.note(3)

    for marks in ("ahead", "committed"):
        clock.fails(
            f"Recreated.*{clock.name}' was deleted and created again, .*its id", marks=marks
        )


def test_records_deleted_before_they_are_read_fail_the_query(clock: Clock) -> None:
    """Spark checks this itself."""
    clock.write(0)
    clock.note(1)
    clock.run()
    clock.write(1, 2)
    clock.note(3)
    clock.broker.truncate(clock.name, {0: 4})

    clock.fails("Some data may have been lost")


def test_transaction_that_hangs_holds_time_until_it_ends(clock: Clock) -> None:
    """The query is read_committed, in any spelling. Aborted records are not counted."""
    clock.begin(1, 0).abort_transaction(60)
    clock.ends[1] = 2
    clock.write(0)
    clock.note(1)
    events = clock.read(options={"Kafka.Isolation.Level": "read_committed"})
    query = clock.output.start(count_per_second(events, "timestamp"))
    assert eventually(lambda: clock.counts, [(0, 4)])
    hanging = clock.begin(0, 1)
    clock.write(1)
    clock.ends[0] += 2
    clock.note(2)
    query.processAllAvailable()
    held = clock.counts
    hanging.commit_transaction(60)

    assert eventually(lambda: clock.counts, [(0, 4), (1, 5)])
    assert held == [(0, 4)]
    query.stop()


def test_least_lower_of_two_topics_counts(clock: Clock, other: Clock) -> None:
    """Each topic has its own stream. This holds for a run that continues, too."""
    for second in (0, 2):
        clock.write(second, second + 1)
        clock.note(second + 2)
        other.write(second)
        other.note(second + 1)
        clock.run(topic=[clock.name, other.name])

    assert clock.counts == [(0, 8), (1, 4), (2, 8)]


def test_compacted_topic_counts_the_records_that_are_left(clock: Clock) -> None:
    """Marks are offsets, and compaction leaves gaps between them."""
    broker, name = clock.broker, clock.name
    settings = {"cleanup.policy": "compact", "segment.ms": 1000, "min.cleanable.dirty.ratio": 0.01}
    broker.create(name, 1, settings)
    broker.send(name, [(0, "", START_MS + 500 * n) for n in range(6)], key="a")
    broker.send(name, [(0, "", START_MS + 10_000)], key="b")  # begins a segment
    for second, end in (1, 2), (2, 4), (11, 7):
        clock.marks.note("w", START_MS + 1000 * second, {0: end})
    wait_until(lambda: [record.offset for record in broker.records(name)] == [5, 6])
    clock.run()

    assert clock.counts == [(2, 1), (10, 1)]


BEHIND = BacklogPolicy(behind_ms=2500)
LIMIT = {"options": {"maxOffsetsPerTrigger": 4}}


def write(clock: Clock, *seconds: int) -> None:
    """Write four records of each second, and note that they are written."""
    for second in seconds:
        clock.write(second)
        clock.note(second + 1)


def read(clock: Clock, *options: CatchUp, **asked: Any) -> None:  # noqa: ANN401 - any parameter
    """Read where the records are that there are, in a run of the query."""
    places = clock.read(*options, **asked).select("partition", "offset")
    query = clock.output.start(places)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_query_behind_gets_the_larger_limit_and_the_flag(clock: Clock) -> None:
    """Once it is near, its next run has the usual limit."""
    write(clock, *range(7))
    read(clock, CatchUp(BEHIND, 12), **LIMIT)
    write(clock, 7)
    read(clock, CatchUp(BEHIND, 12), **LIMIT)

    checkpoint = clock.output.checkpoint
    flags = [
        read_plan(checkpoint, n)[1].get("backlog") for n in list_batches(checkpoint / "offsets")
    ]
    assert (flags[:2], flags[-1]) == ([True, True], False)
    assert [len(rows) for _, rows in sorted(clock.output.batches.items()) if rows] == [12, 12, 4, 4]


@pytest.fixture
def look(clock: Clock) -> Callable[[int], None]:
    """Return a function that lets an observer poll the topic at a second."""
    clock.marks.calls.stream(clock.name, "default", "ingestion")

    def at(second: int) -> None:
        with WriterClient(clock.url, clock.name, "eye", domains=["ingestion"]) as client:
            ends = KafkaEnds(clock.broker.config, clock.name)
            noter = IngestionNoter(client, ends, clock=lambda: START_MS + 1000 * second)
            noter.look()
            client.flush()

    return at


def test_watermark_follows_ingestion_by_the_lag(clock: Clock, look: Callable[[int], None]) -> None:
    """A record older than the lag is late. A record dated ahead closes no window."""
    clock.write(0, 1, 2, 9)
    look(4)
    clock.run(Ingestion(2000), domain="ingestion")
    first = clock.counts
    clock.write(0, 2, 4)
    look(7)
    clock.output.forget_commit()
    clock.run(Ingestion(2000), domain="ingestion")

    assert first == [(0, 4), (1, 4)]
    assert clock.counts == [(0, 4), (1, 4), (2, 8), (4, 4)]


ONLY_LOGS = "is an option of file logs"
INGESTED = {"domain": "ingestion"}


@pytest.mark.parametrize(
    ("options", "asked", "says"),
    [
        ([], {"topic": "no-such"}, "there is no Kafka topic 'no-such' at .*: create it, or"),
        ([], {"topic": "a,b"}, "topic 'a,b' is not"),
        ([], {"topic": []}, "at least one topic"),
        ([], {"topic": ["a", "b"], "stream": "s"}, "belongs to several topics"),
        ([], {"topic": ["a"], "stream": {"b": "s"}}, r"stream maps \['b'\], and the topics are"),
        ([], {"marks": "behind"}, "marks must be 'ahead' or 'committed'"),
        ([], {"options": {"Subscribe": "a"}}, "option subscribe is set by read_noted_kafka"),
        ([], {"options": {"subscribepattern": "a.*"}}, "subscribePattern: name the topics in read"),
        ([], {"options": {"failondataloss": False}}, "failOnDataLoss=false would silently skip"),
        ([], {"options": {"kafka.ssl.truststore.location": "/a"}}, "is for Java, .* as client="),
        ([], {"client": {"oauth_cb": print}}, 'pass its name, client="module:function"'),
        ([], {"client": "nowhere:config"}, "the function 'nowhere:config' cannot be imported"),
        ([], {"event_time": "departure"}, "the events have no column departure"),
        ([], {"stream": "no-such"}, "no-such"),
        ([], {"checkpoint_location": None}, 'marks="ahead" needs checkpoint_location='),
        ([], {"url": ""}, r'marks="ahead" needs a controller, Noted\(url\)'),
        ([ReadRange(end_at=9)], {}, f"ReadRange {ONLY_LOGS}: read_complete_kafka reads a range"),
        ([Columns()], {}, f"Columns {ONLY_LOGS}: parse= .*, and read_late_kafka reads late rows"),
        ([Batches(5)], {}, f"Batches {ONLY_LOGS}: maxOffsetsPerTrigger, among the options"),
        ([CatchUp(BEHIND), CatchUp(BEHIND)], {}, "options are CatchUp, Ingestion, each at most on"),
        ([CatchUp(BEHIND)], {"marks": "topic"}, 'marks="ahead" or marks="committed"'),
        ([CatchUp(BEHIND, 9)], {}, "replaces maxOffsetsPerTrigger, which the options"),
        ([CatchUp(BEHIND, 3)], LIMIT, r"at least the limit of option maxOffsetsPerTrigger \(4\)"),
        ([Ingestion(5)], {}, "goes with domain='ingestion'"),
        ([], INGESTED, r"or pass Ingestion\(max_event_time_lag_ms=…\)"),
    ],
)
def test_mistake_is_refused_in_the_call(
    clock: Clock, options: list[Any], asked: dict[str, Any], says: str
) -> None:
    """For an option of file logs, the error names the replacement for a topic."""
    with pytest.raises(Rejected, match=says):
        clock.read(*options, **asked)
