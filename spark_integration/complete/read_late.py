"""How a batch job reads the late rows of a Kafka topic: those that no watermark waited for."""

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
from spark_integration.complete.window import log
from spark_integration.kafka.records import KafkaRecords, is_committed, require_event_time
from spark_integration.marks.arguments import Noted
from spark_integration.marks.watermark import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from noted_time.analysis import NotedMarks

PLACE_COLUMNS = ("partition", "offset")
"""The columns that say where a record lies."""

SEQ_COLUMN, LOWER_COLUMN, WRITER_COLUMN = "_seq", "_lower", "_writer"
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
    """Return the late rows of a Kafka topic: those at or beyond the cut of a mark above their time.

    A row is late if its time is below the lower of the last mark whose cut does not cover it: the
    largest that a query can have had before it read the row. `_seq` and `_lower` are those of that
    mark, and `_map_writers` is whose row it is, null if that is not known: by the column `writer`,
    if it has the name of one that notes, without that column by the partitions that one writer
    alone has noted. Rows are read that no mark written before `since` covers, a moment of the
    controller's clock, by default all. They are read up to the ends that the topic has now, and
    judged by the marks that there are now: a row that no mark covers yet may have a later mark in a
    later call.

    `parse` of the records has to keep the columns `partition` and `offset`. The other arguments are
    those of `read_complete_kafka`. What was deleted, and what lies below the first mark that is
    kept, is logged: late rows may have been among it.

    Raises `Rejected`, `AnotherLog`, `Recreated` and `Unreachable` as `read_complete_kafka` does for
    the cut of the last mark, and the controller's refusals.
    """
    there, chosen = open_topic(spark, records, "read_late_kafka")
    topic = there.name
    stream = replace(noted, stream=noted.stream or topic).name
    with closing(Transport(noted.url, token=noted.token)) as transport:
        read = run(read_noted(stream, domain), transport.ask)
    marks = read.marks
    AnotherLog.check(stream, read.logs, there.look().id)
    last = marks.cut(len(marks) - 1)
    wait_until_readable(there, last, timeout_s=READABLE_TIMEOUT_S)
    look = wait_until_readable(
        there, last, timeout_s=READABLE_TIMEOUT_S, committed=is_committed(chosen)
    )
    there.check_leaders(look.unknown)
    start = _find_start(topic, marks, since)
    ranges = dict(_find_ranges(topic, start, there.begins(), look.ends))
    events = require_event_time(
        records.parsed(read_records(spark, topic, ranges, chosen)), event_time
    )
    _check_columns(events.columns)
    judged = _join_marks(spark, events, marks, ranges)
    late = judged.where(F.col(f"`{event_time}`") < F.col(LOWER_COLUMN))
    return late.withColumn(WRITER_COLUMN, _map_writers(read, writer))


def _find_start(topic: str, marks: NotedMarks, since: Time | None) -> dict[int, int]:
    """Return the cut of the last mark written before a moment, or of the first that is kept."""
    written_from = MIN_INT64 if since is None else unix_ms_of(since)
    later = (number for number, at in enumerate(marks.written) if at >= written_from)
    number = next(later, len(marks)) - 1
    if number < 0 and marks.first_seq > 1:
        log.warning(
            "topic %r: rows below the cut of mark %d are not judged, since it is the first that is "
            "kept, written at %s",
            *(topic, marks.first_seq, format_time(marks.written[0])),
        )
    return marks.cut(max(0, number))


def _find_ranges(
    topic: str, start: Mapping[int, int], begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[tuple[int, OffsetRange]]:
    """Yield what to read of each partition; what was deleted of it is logged."""
    for partition, end in sorted(ends.items()):
        first, begin = start.get(partition, 0), begins.get(partition, 0)
        if begin > first:
            log.warning(
                "topic %r, partition %d: the records from %d to %d were deleted, and late rows may "
                "have been among them",
                *(topic, partition, first, begin),
            )
        yield partition, OffsetRange(min(max(first, begin), end), end)


def _check_columns(columns: list[str]) -> None:
    for name in PLACE_COLUMNS:
        if name not in columns:
            raise Rejected(
                f"the events have no column {name}, which says where a row is: have parse= keep it"
            )
    for name in ADDED_COLUMNS:
        if name in columns:
            raise Rejected(f"the events have a column {name} of their own: have parse= rename it")


def _join_marks(
    spark: SparkSession, events: DataFrame, marks: NotedMarks, ranges: Mapping[int, OffsetRange]
) -> DataFrame:
    """Return the events with the last mark beyond whose cut each lies, by `NotedMarks.steps`.

    Spark has no join with the row before: events and steps are sorted together by offset.
    """
    steps = [
        (partition, offset, marks.first_seq + number, _limit_lower(marks.lowers[number]))
        for partition, each in ranges.items()
        for offset, number in _find_steps(marks, partition, each.start)
    ]
    columns = f"partition int, offset bigint, {SEQ_COLUMN} bigint, {LOWER_COLUMN} bigint"
    both = events.withColumn(IS_RECORD, F.lit(col=True)).unionByName(
        spark.createDataFrame(steps, columns), allowMissingColumns=True
    )
    by_offset = Window.partitionBy("partition").orderBy(
        "offset", F.col(IS_RECORD).asc_nulls_first()
    )
    for name in (SEQ_COLUMN, LOWER_COLUMN):
        both = both.withColumn(name, F.last(name, ignorenulls=True).over(by_offset))
    found = both.where(F.col(IS_RECORD)).drop(IS_RECORD)
    return found.withColumn(LOWER_COLUMN, F.timestamp_millis(LOWER_COLUMN))


def _limit_lower(lower: int) -> int:
    """Return a lower, or the end of Spark's time that it is beyond."""
    return max(FIRST_MS, min(lower, LAST_MS))


def _find_steps(marks: NotedMarks, partition: int, start: int) -> Iterator[tuple[int, int]]:
    """Yield from which offsets on rows lie beyond more marks, as far as it concerns a read."""
    offsets, numbers = (each.tolist() for each in marks.steps(partition))
    first = bisect_right(offsets, start) - 1
    for offset, number in zip(offsets[first:], numbers[first:], strict=True):
        if number >= 0:
            yield offset, number


def _map_writers(read: NotedMarksAnswer, column: str | None) -> Column:
    if column is not None:
        name = F.col(f"`{column}`").cast("string")
        return F.when(name.isin([*read.words]), name)
    owners = [F.when(F.col("partition") == each, who) for each, who in read.owners.items()]
    return F.coalesce(F.lit(None).cast("string"), *owners)
