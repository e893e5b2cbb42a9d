"""Reads the late rows of a Kafka topic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import AnotherLog, Rejected
from noted_time.client import run
from noted_time.client.transport import Transport
from noted_time.values import MIN_INT64, Time, format_time, unix_ms_of
from reader_client.protocol.vouching import NotedMarksAnswer, read_noted
from spark_integration.complete.read_kafka import (
    READABLE_TIMEOUT_S,
    OffsetRange,
    open_topic,
    read_records,
    wait_until_readable,
)
from spark_integration.kafka.records import KafkaRecords, is_committed, require_event_time
from spark_integration.marks.arguments import Noted
from spark_integration.marks.watermark import FIRST_MS, LAST_MS
from spark_integration.marks.window import log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from noted_time.analysis import NotedMarks

PLACE_COLUMNS = ("partition", "offset")

SEQ_COLUMN = "_seq"
LOWER_COLUMN = "_lower"
WRITER_COLUMN = "_writer"
IS_RECORD = "_is_record"
ADDED_COLUMNS = (SEQ_COLUMN, LOWER_COLUMN, WRITER_COLUMN, IS_RECORD)


def read_late_kafka(  # noqa: PLR0913 - keyword-only but for four
    spark: SparkSession,
    records: KafkaRecords,
    noted: Noted,
    since: Time | None = None,
    *,
    event_time: str,
    domain: str | None = None,
    writer: str | None = None,
) -> DataFrame:
    """Return the rows of a Kafka topic that were written below the watermark.

    A row is late if its time is below the lower of the last mark whose cut does not cover the row.
    That lower is the largest that a query can have applied before it read the row. Three columns
    are added:

    - `_seq` and `_lower`: the seq and the lower of that mark.
    - `_writer`: the writer of the row, or null if it is unknown. It is the value of the column
      `writer`, if that is the name of a writer that notes. Without the argument `writer`, it is the
      writer that alone has noted the partition, if the row is beyond its first note there.

    `since` is a moment on the controller's clock: rows covered by an earlier mark are not read.

    `parse` of the records must keep the columns `partition` and `offset`. The other arguments are
    as in `read_complete_kafka`. Deleted rows, and rows below the oldest kept mark, are not read,
    which is logged.
    """
    topic, source_options = open_topic(spark, records, "read_late_kafka")
    topic_name = topic.name
    stream = replace(noted, stream=noted.stream or topic_name).name
    with closing(Transport(noted.controller, token=noted.token)) as transport:
        answer = run(read_noted(stream, domain), transport.ask)
    marks = answer.marks
    AnotherLog.check(stream, answer.logs, topic.look().id)
    last_cut = marks.cut(len(marks) - 1)
    wait_until_readable(topic, last_cut, timeout_s=READABLE_TIMEOUT_S)
    look = wait_until_readable(
        topic, last_cut, timeout_s=READABLE_TIMEOUT_S, reads_committed=is_committed(source_options)
    )
    topic.check_leaders(look.unknown)
    start_position = _find_start(topic_name, marks, since)
    ranges = dict(_find_ranges(topic_name, start_position, topic.begins(), look.ends))
    events = require_event_time(
        records.parsed(read_records(spark, topic_name, ranges, source_options)), event_time
    )
    _check_columns(events.columns)
    events_with_marks = _join_marks(spark, events, marks, ranges)
    late_rows = events_with_marks.where(F.col(f"`{event_time}`") < F.col(LOWER_COLUMN))
    return late_rows.withColumn(WRITER_COLUMN, _map_writers(answer, writer))


def _find_start(topic: str, marks: NotedMarks, since: Time | None) -> dict[int, int]:
    """Return the cut of the last mark that was written before `since`, or of the first mark."""
    written_from = MIN_INT64 if since is None else unix_ms_of(since)
    number = len(marks) - 1
    for later_number, written_at in enumerate(marks.written):
        if written_at >= written_from:
            number = later_number - 1
            break
    if number < 0 and marks.first_seq > 1:
        log.warning(
            "topic %r: late rows below the cut of mark %d, written at %s, cannot be found, because "
            "the controller keeps no older mark",
            topic,
            marks.first_seq,
            format_time(marks.written[0]),
        )
    return marks.cut(max(0, number))


def _find_ranges(
    topic: str, start: Mapping[int, int], begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[tuple[int, OffsetRange]]:
    for partition, end in sorted(ends.items()):
        first = start.get(partition, 0)
        begin = begins.get(partition, 0)
        if begin > first:
            log.warning(
                "topic %r, partition %d: the records from %d to %d were deleted and may have been "
                "late",
                topic,
                partition,
                first,
                begin,
            )
        yield partition, OffsetRange(min(max(first, begin), end), end)


def _check_columns(columns: list[str]) -> None:
    for name in PLACE_COLUMNS:
        if name not in columns:
            raise Rejected(
                f"the events have no column {name}, which locates a row: keep it in parse="
            )
    for name in ADDED_COLUMNS:
        if name in columns:
            raise Rejected(f"the events already have a column {name}: rename it in parse=")


def _join_marks(
    spark: SparkSession, events: DataFrame, marks: NotedMarks, ranges: Mapping[int, OffsetRange]
) -> DataFrame:
    """Sort events and steps by offset; Spark has no as-of join."""
    steps: list[tuple[int, int, int, int]] = []
    for partition, offset_range in ranges.items():
        for offset, number in _find_steps(marks, partition, offset_range.start):
            lower = _limit_lower(marks.lowers[number])
            steps.append((partition, offset, marks.first_seq + number, lower))
    columns = f"partition int, offset bigint, {SEQ_COLUMN} bigint, {LOWER_COLUMN} bigint"
    rows = events.withColumn(IS_RECORD, F.lit(col=True)).unionByName(
        spark.createDataFrame(steps, columns), allowMissingColumns=True
    )
    by_offset = Window.partitionBy("partition").orderBy(
        "offset", F.col(IS_RECORD).asc_nulls_first()
    )
    for name in (SEQ_COLUMN, LOWER_COLUMN):
        rows = rows.withColumn(name, F.last(name, ignorenulls=True).over(by_offset))
    records = rows.where(F.col(IS_RECORD)).drop(IS_RECORD)
    return records.withColumn(LOWER_COLUMN, F.timestamp_millis(LOWER_COLUMN))


def _limit_lower(lower: int) -> int:
    return max(FIRST_MS, min(lower, LAST_MS))


def _find_steps(marks: NotedMarks, partition: int, start: int) -> Iterator[tuple[int, int]]:
    """Yield the steps from `start` on: an offset, and the last mark that does not cover it."""
    offset_column, number_column = marks.steps(partition)
    offsets = offset_column.tolist()
    numbers = number_column.tolist()
    first = bisect_right(offsets, start) - 1
    for offset, number in zip(offsets[first:], numbers[first:], strict=True):
        if number >= 0:
            yield offset, number


def _map_writers(answer: NotedMarksAnswer, column: str | None) -> Column:
    if column is not None:
        name_column = F.col(f"`{column}`").cast("string")
        return F.when(name_column.isin([*answer.promises]), name_column)
    owner_columns = [
        F.when((F.col("partition") == partition) & (F.col("offset") >= first_offset), owner)
        for partition, (owner, first_offset) in answer.owners.items()
    ]
    return F.coalesce(F.lit(None).cast("string"), *owner_columns)
