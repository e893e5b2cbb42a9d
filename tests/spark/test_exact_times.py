"""Rows dated exactly at a lower, which their writer may write after it has noted that time."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from tests.support.clock import START_MS, Clock, MakeClock

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

FIRST_S = 0
LOWER_S = 2
LAST_S = 9
"""The writer notes the last time after its last row."""

STATE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",  # RocksDB needs it
    "fs.file.impl.disable.cache": "true",
}


def drop_within_watermark(first: DataFrame, _: DataFrame) -> DataFrame:
    return first.dropDuplicatesWithinWatermark(["time"])


def drop_with_time(first: DataFrame, _: DataFrame) -> DataFrame:
    return first.dropDuplicates(["time"])


def join(first: DataFrame, second: DataFrame) -> DataFrame:
    pairs = first.join(second.withColumnRenamed("time", "other"), F.expr("time = other"))
    return pairs.select("time")


def join_left_outer(first: DataFrame, second: DataFrame) -> DataFrame:
    """Return the rows of the first topic: none of them has a pair."""
    just_after = F.expr("other = time + INTERVAL 1 MILLISECOND")
    return first.join(second.withColumnRenamed("time", "other"), just_after, "left_outer")


def give_at_timer(first: DataFrame, _: DataFrame) -> DataFrame:
    keyed_rows = first.select("time", F.unix_millis("time").alias("key")).groupBy("key")
    timers = keyed_rows.transformWithState(Giving(), "key LONG", "append", "EventTime")
    return timers.select(F.timestamp_millis("key").alias("time"))


class Giving(StatefulProcessor):
    """Returns each key once a second has passed since."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        list(rows)
        self._handle.registerTimer(key[0] + 1000)
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        yield Row(key=key[0])


def time_out(first: DataFrame, _: DataFrame) -> DataFrame:
    keyed_rows = first.select("time", F.unix_millis("time").alias("key")).groupBy("key")
    timeouts = keyed_rows.applyInPandasWithState(
        give_key, "key LONG", "seen BOOLEAN", "append", GroupStateTimeout.EventTimeTimeout
    )
    return timeouts.select(F.timestamp_millis("key").alias("time"))


def give_key(
    key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Return the key once a second has passed since."""
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": list(key)})
        return
    list(frames)
    state.update((True,))
    state.setTimeoutTimestamp(int(key[0]) + 1000)


@pytest.fixture(autouse=True)
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Keep state in RocksDB, as transformWithState requires."""
    for name, value in STATE.items():
        spark.conf.set(name, value)
    yield
    for name in STATE:
        spark.conf.unset(name)


Operator = Callable[[DataFrame, DataFrame], DataFrame]


@pytest.mark.parametrize(
    "operator",
    [drop_within_watermark, drop_with_time, join, join_left_outer, give_at_timer, time_out],
)
@pytest.mark.parametrize(
    ("strict", "kept_ms"), [(True, [0, 400, 2000, 2400]), (False, [0, 400, 2400])]
)
def test_only_strict_queries_keep_rows_exactly_at_a_lower(
    make_clock: MakeClock,
    operator: Operator,
    strict: bool,  # noqa: FBT001 - a parameter
    kept_ms: list[int],
) -> None:
    """If that changes, the table of the guide to Spark does."""
    clocks = [make_clock(Clock), make_clock(Clock)]
    step(clocks, FIRST_S, LOWER_S)
    rows_of_topics = []
    for clock in clocks:
        rows_of_topics.append(clock.read(strict=strict).select(F.col("timestamp").alias("time")))
    rows = operator(*rows_of_topics).select(F.unix_millis("time") - START_MS)
    query = make_clock.output.start(rows)
    try:
        query.processAllAvailable()
        step(clocks, LOWER_S, LAST_S)
        query.processAllAvailable()
    finally:
        query.stop()

    assert [row[0] for row in make_clock.output.rows] == kept_ms


def step(clocks: list[Clock], second: int, noted_second: int) -> None:
    """Write rows of a second to each topic, and note a time."""
    for clock in clocks:
        clock.write(second, partitions=(0,))
        clock.note(noted_second)
