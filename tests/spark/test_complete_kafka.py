"""Batch reads of a window of a Kafka topic: they have exactly its records, or say why not."""

import random
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import CompleteWindow, NotCompleteYet, Recreated, Rejected, StreamCut, Unreachable
from spark_integration import BatchRead, KafkaRecords, Noted, read_complete_kafka
from spark_integration.complete import read_kafka
from spark_integration.complete.read_kafka import (
    OffsetRange,
    find_deleted_ranges,
    find_needed_ranges,
)
from tests.support.bundles import take_fields
from tests.support.spark_sessions import FAILED
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker
from tools.trials.served import Served
from writer_client import KafkaNotedProducer

pytestmark = [pytest.mark.needs_spark("3.5"), pytest.mark.shows("read_complete_kafka")]

START = 1_357_000_000_000
SECONDS = range(4)


def parse_times(records: DataFrame) -> DataFrame:
    """Parse records whose value is an event time in ms."""
    return records.select(
        F.expr("timestamp_millis(try_cast(CAST(value AS string) AS bigint))").alias("at")
    )


class Hourly:
    """A topic of two partitions and its stream, with windows of a second."""

    def __init__(self, spark: SparkSession, broker: Broker, controller: Served) -> None:
        self.spark = spark
        self.broker = broker
        self.served = controller
        self.name = f"windows-{uuid4().hex[:8]}"
        self.note = controller.stream(self.name).note
        broker.create(self.name)

    def send(self, *rows: tuple[int, int]) -> None:
        """Write (partition, event time); the time is the timestamp and the value."""
        self.broker.send(self.name, [(partition, str(time), time) for partition, time in rows])

    def read(self, second: int, **options: Any) -> DataFrame:  # noqa: ANN401 - any parameter
        """Read the window of a second, by default by the timestamps."""
        start = START + 1000 * second
        chosen_options = {"event_time": "timestamp", **options}
        records = take_fields(
            KafkaRecords, chosen_options, topic=self.name, bootstrap=self.broker.address
        )
        noted_stream = Noted(controller=self.served.url)
        batch_read = take_fields(BatchRead, chosen_options)
        return read_complete_kafka(
            self.spark, records, noted_stream, start, start + 1000, batch_read, **chosen_options
        )

    def times(self, second: int, **options: Any) -> list[int]:  # noqa: ANN401 - any parameter
        """Return the event times of a window."""
        times = F.unix_millis(options.get("event_time", "timestamp"))
        return sorted(row[0] for row in self.read(second, **options).select(times).collect())

    def write(self, *, is_shared: bool) -> list[int]:
        """Write and note second by second, with records up to two seconds early; return all times.

        Two writers have a partition each, or share both.
        """
        chance = random.Random(6)
        sent_times = list[int]()
        largest = [0, 0]
        ends = [0, 0]
        self.served.post(self.name, {"writer": "0"}, {"writer": "1"})
        for second in SECONDS:
            rows = [(n % 2, START + 1000 * second + chance.randrange(3000)) for n in range(16)]
            self.send(*rows)
            sent_times += [time for _, time in rows]
            for partition, time in rows:
                ends[partition] += 1
                largest[partition] = max(largest[partition], time)
            for writer in (0, 1):
                position = dict(enumerate(ends)) if is_shared else {writer: ends[writer]}
                newest = max(largest) if is_shared else largest[writer]
                self.note(str(writer), START + 1000 * (second + 1), position, max_time=newest)
        return sent_times


@pytest.fixture
def hourly(spark: SparkSession, broker: Broker, controller: Served) -> Hourly:
    """Return a topic without a record."""
    return Hourly(spark, broker, controller)


PAYLOAD: dict[str, Any] = {"event_time": "at", "parse": parse_times}


@pytest.mark.spark
@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("shared", "asked", "warnings"),
    [(True, {}, 0), (True, PAYLOAD, 4), (False, {**PAYLOAD, "own_segments": True}, 3)],
    ids=["by timestamps", "all retained", "own partitions"],
)
def test_consecutive_windows_give_each_record_once(
    hourly: Hourly,
    caplog: pytest.LogCaptureFixture,
    *,
    shared: bool,
    asked: dict[str, Any],
    warnings: int,
) -> None:
    """The log says so if a read begins at the first retained record."""
    sent_times = hourly.write(is_shared=shared)
    hourly.send((0, START + 1500))  # late: its window is complete
    read_times = {second: hourly.times(second, **asked) for second in SECONDS}

    def select_times(second: int) -> list[int]:
        return sorted(t for t in sent_times if 0 <= t - START - 1000 * second < 1000)

    assert read_times == {second: select_times(second) for second in SECONDS}
    assert caplog.text.count("offsets below the window's end cut are read") == warnings


def produce_second(hourly: Hourly, writer: str, second: int, *, aborts: bool) -> None:
    """Produce four records of two seconds in a transaction, and note the first second."""
    chance = random.Random(f"{writer}{second}")
    config = {**hourly.broker.config, "transactional.id": f"{hourly.name}-{writer}"}
    with KafkaNotedProducer(config, hourly.name, writer, controller=hourly.served.url) as producer:
        for is_aborted in (True, False) if aborts else (False,):
            with suppress(RuntimeError), producer.transaction():
                for _ in range(4):
                    time = START + 1000 * second + chance.randrange(2000)
                    producer.produce(value=writer, event_time=time)
                producer.note_time(START + 1000 * (second + 1))
                if is_aborted:
                    raise RuntimeError
        producer.flush(60)


@pytest.mark.spark
@pytest.mark.acceptance
def test_windows_have_each_committed_record_once(hourly: Hourly) -> None:
    """The producers share the partitions, restart, and abort a transaction."""
    hourly.served.post(hourly.name, {"writer": "a"}, {"writer": "b"})
    for second in range(3):
        produce_second(hourly, "a", second, aborts=second == 1)
        produce_second(hourly, "b", second, aborts=False)
    committed_only = {"options": {"kafka.isolation.level": "read_committed"}}
    read_times = [hourly.times(second, **committed_only) for second in range(3)]

    times = [record.time - START for record in hourly.broker.records(hourly.name)]
    assert len(times) == 24
    for second in range(3):
        times_of_second = sorted(START + time for time in times if time // 1000 == second)
        assert read_times[second] == times_of_second


@pytest.mark.spark
@pytest.mark.acceptance
def test_added_partition_has_no_record_of_the_window(hourly: Hourly) -> None:
    hourly.send((1, START + 1), (1, START + 2))
    hourly.note("w", START + 1000, {1: 2}, max_time=START + 2)
    hourly.broker.grow(hourly.name, 3)
    hourly.send((0, START + 1), (2, START + 1))

    assert hourly.read(0).count() == 2


@pytest.mark.spark
@pytest.mark.acceptance
def test_records_deleted_from_inside_the_window_are_an_error(
    hourly: Hourly, caplog: pytest.LogCaptureFixture
) -> None:
    """Earlier deleted records are not an error. The remaining ones can be requested."""
    hourly.note("w", START, {0: 0})
    hourly.send(*((0, START + 500 * n) for n in range(6)))
    hourly.note("w", START + 3000, {0: 6}, max_time=START + 2500)
    hourly.broker.truncate(hourly.name, {0: 1})
    before = hourly.times(1)
    hourly.broker.truncate(hourly.name, {0: 3})

    assert before == [START + 1000, START + 1500]
    with pytest.raises(Rejected, match=r"in the window .*: partition 0, 0 to 3; read it sooner"):
        hourly.read(1)
    assert hourly.times(1, deleted="accept") == [START + 1500]
    assert "partition 0, 0 to 3" in caplog.text


@pytest.mark.spark
@pytest.mark.acceptance
def test_unreadable_window_says_why(hourly: Hourly, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the reason, for example an open transaction or a missing field."""
    monkeypatch.setattr(read_kafka, "READABLE_TIMEOUT_S", 0.5)
    broker = hourly.broker
    name = hourly.name
    committed_only = {"options": {"kafka.isolation.level": "read_committed"}}
    hanging = begin_transaction(broker, name, "hangs", partition=0, timestamp=START)
    hourly.send((0, START + 1))
    hourly.note("w", START + 1000, {0: 2}, max_time=START + 1)

    with pytest.raises(NotCompleteYet):
        hourly.read(1)
    with pytest.raises(Unreachable, match=r"partition 0: a transaction .* at 0, .* is at 2"):
        hourly.read(0, **committed_only)
    hanging.commit_transaction(60)
    assert hourly.times(0, **committed_only) == [START, START + 1]
    with pytest.raises(FAILED, match=f"topic {name}, partition 0, offset 0 has no event"):
        hourly.times(0, **PAYLOAD)
    with pytest.raises(Rejected, match="option endingOffsets is set by read_complete_kafka"):
        hourly.read(0, options={"endingoffsets": "latest"})
    with pytest.raises(Rejected, match="no column at"):
        hourly.read(0, event_time="at")
    broker.create(name)
    with pytest.raises(Recreated, match=r"created again, .* partition 0 ends at 0, .* noted 2 "):
        hourly.read(0)


OFFSETS = st.integers(0, 12)
TIMES = st.lists(st.integers(0, 30), max_size=12)


@given(
    logs=st.lists(TIMES, min_size=1, max_size=3),
    begins=st.lists(OFFSETS, min_size=3, max_size=3),
    ends=st.dictionaries(st.integers(0, 2), OFFSETS),
    start=st.integers(0, 30),
    in_order=st.booleans(),
    exact=st.booleans(),
)
def test_needed_ranges_cover_the_window_except_deleted_rows(  # noqa: PLR0913 - what a topic is
    *,
    logs: list[list[int]],
    begins: list[int],
    ends: dict[int, int],
    start: int,
    in_order: bool,
    exact: bool,
) -> None:
    """The ranges hold for each possible start of a read.

    Timestamps that go back are not considered.
    """
    if in_order:
        logs = [sorted(log) for log in logs]
    topic = dict(enumerate(logs))
    retained_begins = {p: min(begins[p], len(log)) for p, log in topic.items()}
    to = {p: min(end, len(topic[p])) for p, end in ends.items() if p in topic}
    inside = {}
    since = {}
    for partition, log in topic.items():
        if partition in to:
            times = log[: to[partition]]
            inside[partition] = [n for n, time in enumerate(times) if start <= time < start + 10]
        begin = retained_begins[partition]
        later = (n for n in range(begin, len(log)) if log[n] >= start)
        since[partition] = next(later, len(log))
    from_cut = {p: min([*inside[p], end]) for p, end in to.items()} if exact else {}
    cuts = StreamCut(from_cut), StreamCut({p: end for p, end in to.items() if end})
    window = CompleteWindow(start, start + 10, *cuts, 1, 0, exact=exact)
    deleted_ranges = find_deleted_ranges(window, retained_begins, since)

    for firsts in ({}, since, from_cut):
        ranges = find_needed_ranges(window, retained_begins, firsts)
        assert ranges.keys() == topic.keys()
        for partition, (begin, end) in ranges.items():
            left = {n for n in inside.get(partition, []) if n >= retained_begins[partition]}
            assert retained_begins[partition] <= begin <= end
            assert left <= set(range(begin, end))
    for partition, offsets in inside.items():
        has_lost = any(offset < retained_begins[partition] for offset in offsets)
        if (in_order or exact) and has_lost:
            assert deleted_ranges[partition] == OffsetRange(
                from_cut.get(partition, 0), min(retained_begins[partition], to[partition])
            )
