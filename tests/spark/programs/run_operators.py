"""Runs a query for each stateful operator, and kills itself once each is at its place.

`dies` names the place. A query at its place waits for the others:

- `planned`: the next batch is in the log of offsets, and none of its rows is read yet;
- `written`: the next batch has written its state and its output, and is not committed;
- `committed`: the first batch that was not committed is committed.

So no run commits two batches of a query. The program ends with status 0 once each query has
committed a batch under the last watermark.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pandas as pd
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from spark_integration import (
    KafkaRecords,
    Noted,
    WatermarkPolicy,
    read_noted_kafka,
    read_relayed_kafka,
)
from tests.support.killed_operators import (
    GAP_MS,
    KEPT_MS,
    SOON_MS,
    WINDOW_MS,
    find_last_batch,
    is_finished,
)
from tests.support.spark_sessions import start_spark
from tools.trials.starting import retry_start

Given = dict[str, Any]
Read = Callable[[str], DataFrame]

COUNTED = "carrier STRING, end LONG, count LONG"
POLL_S = 0.01
STARTS_AT_ONCE = 4
"""A query waits for its Python processes for most of its start."""


def windows(read_stream: Read) -> DataFrame:
    """Return (start, count) of each window."""
    counts = read_stream("departures").groupBy(F.window("time", ms(WINDOW_MS))).count()
    return counts.select(F.unix_millis("window.start"), "count")


def sessions(read_stream: Read) -> DataFrame:
    """Return (carrier, start, end, count) of each session."""
    session = F.session_window("time", ms(GAP_MS)).alias("session")
    counts = (
        read_stream("departures")
        .groupBy(F.substring("name", 1, 1).alias("carrier"), session)
        .count()
    )
    bounds = (F.unix_millis(f"session.{bound}") for bound in ("start", "end"))
    return counts.select("carrier", *bounds, "count")


def names(read_stream: Read) -> DataFrame:
    """Return (name) of each departure, which comes once or twice."""
    return read_stream("departures").dropDuplicatesWithinWatermark(["name"]).select("name")


def distinct(read_stream: Read) -> DataFrame:
    """Return (name, departure) of each time of a departure, which comes once or twice."""
    rows = read_stream("departures").select("name", "time").dropDuplicates(["name", "time"])
    return rows.select("name", F.unix_millis("time"))


def inner(read_stream: Read) -> DataFrame:
    """Return (name, departure, arrival) of each departure with an arrival."""
    return _join(read_stream, "inner")


def outer(read_stream: Read) -> DataFrame:
    """Return the inner pairs, and (name, departure, none) of each departure without an arrival."""
    return _join(read_stream, "left_outer")


def _join(read_stream: Read, join_type: str) -> DataFrame:
    left = read_stream("departures").select("time", "name")
    right = read_stream("arrivals").select(
        F.col("time").alias("landed"), F.col("name").alias("who")
    )
    soon = f"name = who AND landed >= time AND landed <= time + INTERVAL {ms(SOON_MS)}"
    pairs = left.join(right, F.expr(soon), join_type)
    return pairs.select("name", F.unix_millis("time"), F.unix_millis("landed"))


def timers(read_stream: Read) -> DataFrame:
    """Return (carrier, end of the window, count) when the timer of both fires."""
    return _group_by_carrier_and_end(read_stream).transformWithState(
        Counting(), COUNTED, "append", "EventTime"
    )


def timeouts(read_stream: Read) -> DataFrame:
    """Return (carrier, end of the window, count) when the state of both times out."""
    return _group_by_carrier_and_end(read_stream).applyInPandasWithState(
        count_until_timeout, COUNTED, "count LONG", "append", GroupStateTimeout.EventTimeTimeout
    )


def _group_by_carrier_and_end(read_stream: Read) -> GroupedData:
    start = F.unix_millis("time") - F.pmod(F.unix_millis("time"), F.lit(WINDOW_MS))
    keyed_rows = read_stream("departures").select(
        "time", F.substring("name", 1, 1).alias("carrier"), (start + WINDOW_MS).alias("end")
    )
    return keyed_rows.groupBy("carrier", "end")


def count_until_timeout(
    key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Count the rows of a key until its end, and return the count then."""
    carrier, end = key
    count = int(state.get[0]) if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"carrier": [carrier], "end": [end], "count": [count]})
        return
    state.update((count + sum(len(frame) for frame in frames),))
    state.setTimeoutTimestamp(int(end))  # keys are of numpy


class Counting(StatefulProcessor):
    """Counts the rows of a key until the timer at its end fires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create a counter."""
        self._handle = handle
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[str, int],
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        """Count."""
        self._handle.registerTimer(key[1])
        self._count.update((self._read_count() + sum(1 for _ in rows),))
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[str, int],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Return the count, and forget it."""
        count = self._read_count()
        self._count.clear()
        expired_ms = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(carrier=key[0], end=expired_ms, count=count)

    def _read_count(self) -> int:
        count_row = self._count.get()
        return int(count_row[0]) if count_row else 0


OPERATORS: dict[str, Callable[[Read], DataFrame]] = {
    each.__name__: each
    for each in (windows, sessions, names, distinct, inner, outer, timers, timeouts)
}


def ms(duration: int) -> str:
    """Return a duration as Spark writes it."""
    return f"{duration} milliseconds"


class Query:
    """A query that waits at the place where the program may be killed."""

    def __init__(self, spark: SparkSession, program_input: Given, query_input: Given) -> None:
        self._dies = query_input["dies"]
        self._output = Path(query_input["output"])
        self._checkpoint = Path(query_input["checkpoint"])
        self._run = program_input["run"]
        self._output.mkdir(parents=True, exist_ok=True)
        self._uncommitted = find_last_batch(self._checkpoint, "commits") + 1
        self._unplanned = find_last_batch(self._checkpoint, "offsets") + 1
        self._waits = Event()

        def read(topic: str) -> DataFrame:
            records = KafkaRecords(
                topic, program_input["bootstrap"], parse=parse, options=query_input["options"]
            )
            arguments = spark, records, Noted(controller=program_input["url"])
            policy = WatermarkPolicy(strict=query_input["strict"], dedup_retention_ms=KEPT_MS)
            if query_input["marks"] == "relayed":
                return read_relayed_kafka(*arguments, event_time="time", policy=policy)
            return read_noted_kafka(
                *arguments,
                event_time="time",
                checkpoint_location=str(self._checkpoint),
                marks=query_input["marks"],
                policy=policy,
            )

        rows = retry_start(lambda: OPERATORS[query_input["operator"]](read))
        writer = rows.writeStream.outputMode("append").foreachBatch(self._write)
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()

    def is_there(self) -> bool:
        """Return whether it is at its place or finished, or raise its error."""
        if not self._query.isActive:
            self._query.awaitTermination()
        has_committed = find_last_batch(self._checkpoint, "commits") >= self._uncommitted
        is_committed = self._dies == "committed" and has_committed
        return self._waits.is_set() or is_committed or is_finished(self._checkpoint)

    def _write(self, rows: DataFrame, batch: int) -> None:
        is_planned = self._dies == "planned" and batch >= self._unplanned
        is_committed = self._dies == "committed" and batch > self._uncommitted
        if is_planned or is_committed or is_finished(self._checkpoint):
            self._wait()
        lines = sorted(json.dumps(tuple(row)) for row in rows.collect())
        unfinished_file = self._output / "unfinished"
        unfinished_file.write_text("\n".join(lines))
        unfinished_file.replace(self._output / f"{batch}-{self._run}")
        if self._dies == "written" and batch >= self._unplanned:
            self._wait()

    def _wait(self) -> NoReturn:
        self._waits.set()
        while True:
            time.sleep(POLL_S)


def parse(records: DataFrame) -> DataFrame:
    """Return (time, name) of records."""
    return records.select(F.col("timestamp").alias("time"), F.expr("string(value)").alias("name"))


def main(program_input: Given) -> int:
    """Run until all queries are at their places; return 0 if all are finished, or 1."""
    try:
        spark = start_spark(program_input["settings"], program_input["python"])
        with ThreadPoolExecutor(STARTS_AT_ONCE) as pool:
            queries = [*pool.map(partial(Query, spark, program_input), program_input["queries"])]
        while not all(query.is_there() for query in queries):
            time.sleep(POLL_S)
    except Exception:  # noqa: BLE001 - any of a query
        traceback.print_exc()
        return 1
    if all(
        is_finished(Path(query_input["checkpoint"])) for query_input in program_input["queries"]
    ):
        return 0
    os.killpg(0, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    os._exit(main(json.loads(sys.argv[1])))  # queries may wait
