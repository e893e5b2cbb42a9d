"""Queries on Kafka topics with marks in the micro-batch of their rows, on a real broker."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from noted_time import BacklogPolicy, Rejected
from spark_integration import CatchUp
from tests.support.clock import START_MS, Clock, MakeClock
from tests.support.offset_log import list_batches, read_plan
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tests.support.topic_scenarios import play, read_scenarios
from tools.trials.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.shows("read_noted_kafka")]


def test_password_of_the_client_is_in_no_file_and_no_plan(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    clock.write(0)
    clock.note(1)
    secret = uuid4().hex
    options = {"client": {"sasl.username": "reader", "sasl.password": secret}}
    clock.run(**options)
    clock.read(**options).explain(extended=True)

    kept_files = [file for file in clock.output.checkpoint.rglob("*") if file.is_file()]
    assert kept_files
    assert not [file for file in kept_files if secret.encode() in file.read_bytes()]
    shown = capfd.readouterr()
    assert "client_secret" in shown.out
    assert secret not in shown.out + shown.err


def departures(records: DataFrame) -> DataFrame:
    """Parse records with a second of departure."""
    event = F.from_json(F.col("value").cast("string"), "departure TIMESTAMP, origin STRING")
    return records.select(event.alias("event")).select("event.*")


def test_record_without_the_field_fails_with_its_offset(clock: Clock) -> None:
    """The parsed events have no columns for the partition and the offset."""
    valid_value = '{"departure": "2013-01-01T09:00:00Z", "origin": "EWR"}'
    clock.broker.send(clock.name, [(1, valid_value, 0), (1, '{"origin": "EWR"}', 0)])
    clock.note(1)
    events = clock.read(event_time="departure", parse=departures)
    query = clock.output.start(count_per_second(events, "departure"))

    with pytest.raises(PySparkException, match="no event time in column departure") as failure:
        query.processAllAvailable()
    assert f"a record of topic {clock.name}, partition 1, offset 1 has" in str(failure.value)


def test_compacted_topic_counts_the_records_that_are_left(clock: Clock) -> None:
    """Marks are offsets, and compaction leaves gaps between them."""
    broker = clock.broker
    name = clock.name
    settings = {"cleanup.policy": "compact", "segment.ms": 1000, "min.cleanable.dirty.ratio": 0.01}
    broker.create(name, 1, settings)
    broker.send(name, [(0, "", START_MS + 500 * n) for n in range(6)], key="a")
    broker.send(name, [(0, "", START_MS + 10_000)], key="b")  # begins a segment
    for second, end in (1, 2), (2, 4), (11, 7):
        clock.marks.note("w", START_MS + 1000 * second, {0: end})
    wait_until(lambda: [record.offset for record in broker.records(name)] == [5, 6])
    clock.run()

    assert clock.counts == [(2, 1), (10, 1)]


BEHIND = BacklogPolicy(reader_lag_ms=2500)
LIMIT = {"options": {"maxOffsetsPerTrigger": 4}}


def test_query_behind_gets_the_larger_limit_and_the_flag(clock: Clock) -> None:
    """Once it is near, its next run has the usual limit."""
    for second in range(8):
        clock.write(second)
        clock.note(second + 1)
        if second >= 6:
            records = clock.read(CatchUp(BEHIND, 12), **LIMIT)
            query = clock.output.start(records.select("partition", "offset"))
            query.processAllAvailable()
            query.stop()

    checkpoint = clock.output.checkpoint
    flags = [
        read_plan(checkpoint, n)[1].get("backlog") for n in list_batches(checkpoint / "offsets")
    ]
    assert (flags[:2], flags[-1]) == ([True, True], False)
    assert [len(rows) for _, rows in sorted(clock.output.batches.items()) if rows] == [12, 12, 4, 4]


ONLY_LOGS = "is an option of file logs"


def make_log_option(name: str) -> object:
    """Return an option of file logs, which are refused by the names of their classes."""
    return type(name, (), {})()


BATCHES = make_log_option("Batches")
COLUMNS = make_log_option("Columns")
READ_RANGE = make_log_option("ReadRange")


@pytest.mark.parametrize(
    ("options", "asked", "says"),
    [
        ([], {"topic": "a,b"}, "topic 'a,b' is not"),
        ([], {"topic": []}, "at least one topic"),
        ([], {"topic": ["a", "b"], "stream": "s"}, "belongs to several topics"),
        ([], {"topic": ["a"], "stream": {"b": "s"}}, r"stream maps \['b'\], and the topics are"),
        ([], {"options": {"failondataloss": False}}, "failOnDataLoss=false would silently skip"),
        ([], {"client": {"oauth_cb": print}}, 'pass its name, client="module:function"'),
        ([], {"client": "nowhere:config"}, "the function 'nowhere:config' cannot be imported"),
        ([READ_RANGE], {}, f"ReadRange {ONLY_LOGS}: read_complete_kafka reads a range"),
        ([COLUMNS], {}, f"Columns {ONLY_LOGS}: parse= .*, and read_late_kafka reads late rows"),
        ([BATCHES], {}, f"Batches {ONLY_LOGS}: maxOffsetsPerTrigger, among the options"),
        ([CatchUp(BEHIND), CatchUp(BEHIND)], {}, "options are CatchUp, Ingestion, each at most on"),
        ([CatchUp(BEHIND)], {"relayed": True}, "CatchUp has no effect: use read_noted_kafka"),
        ([COLUMNS], {"relayed": True}, f"Columns {ONLY_LOGS}: parse= .*"),
        ([CatchUp(BEHIND, 9)], {}, "replaces maxOffsetsPerTrigger, which the options"),
        ([CatchUp(BEHIND, 3)], LIMIT, r"at least the limit of option maxOffsetsPerTrigger \(4\)"),
    ],
)
def test_mistake_is_refused_in_the_call(
    clock: Clock, options: list[Any], asked: dict[str, Any], says: str
) -> None:
    """For an option of file logs, the error names the replacement for a topic."""
    with pytest.raises(Rejected, match=says):
        clock.read(*options, **asked)


NEAR = "name = who AND landed BETWEEN time - INTERVAL 10 SECONDS AND time + INTERVAL 10 SECONDS"


def send(topic: Clock, second: int, *names: str) -> None:
    """Write a record of a second for each name."""
    topic.broker.send(topic.name, [(0, name, START_MS + 1000 * second) for name in names])
    topic.ends[0] = topic.ends.get(0, 0) + len(names)


def parse(records: DataFrame) -> DataFrame:
    """Return (time, name)."""
    return records.select(F.col("timestamp").alias("time"), F.expr("string(value)").alias("name"))


def test_join_finds_pairs_if_one_side_has_only_marks(
    clock: Clock, other: Clock, tmp_path: Path
) -> None:
    """Otherwise Spark would optimize the null columns of marks, and the join's condition."""
    outputs = [QueryOutput(tmp_path / join_type) for join_type in ("inner", "left_outer")]

    def start(output: QueryOutput) -> StreamingQuery:
        options: dict[str, Any] = {"event_time": "time", "parse": parse, "marks": "committed"}
        place = str(output.checkpoint)
        left, two = (side.read(checkpoint_location=place, **options) for side in (clock, other))
        right = two.select(F.col("time").alias("landed"), F.col("name").alias("who"))
        joined_rows = left.select("time", "name").join(right, F.expr(NEAR), output.checkpoint.name)
        return output.start(joined_rows)

    def note(second: int) -> None:
        for topic in (clock, other):
            topic.note(second)
        for query in queries:
            query.processAllAvailable()

    send(clock, 1, "both", "left first")
    send(other, 3, "both", "right first")
    queries = [start(output) for output in outputs]
    note(5)
    send(clock, 6, "right first")
    note(7)
    send(other, 8, "left first")
    note(9)
    for query in queries:
        query.stop()

    for output in outputs:
        assert [row[1] for row in output.rows if row[3]] == ["both", "left first", "right first"]


@pytest.mark.parametrize("acts", read_scenarios("ahead", "gone"))
def test_scenario(make_clock: MakeClock, caplog: pytest.LogCaptureFixture, acts: list[str]) -> None:
    """See `topics/ahead.txt` and `topics/gone.txt`."""
    play(make_clock, Clock, caplog, acts)
