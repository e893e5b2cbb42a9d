"""Reads a complete window of time from a Kafka topic."""

from __future__ import annotations

import json
import time as clocks
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import CompleteWindow, Rejected, Unreachable
from noted_time.client import position_to_wire
from noted_time.values import Time, find_missing_offsets, format_time, validate_name
from spark_integration.kafka.client import build_client_config
from spark_integration.kafka.records import (
    KAFKA_TIME,
    KafkaRecords,
    is_committed,
    normalize_options,
    require_event_time,
)
from spark_integration.marks.arguments import Noted, check_promised
from spark_integration.marks.reader_options import choose_options
from spark_integration.marks.window import BatchRead, OnDeleted, OnMissing, log, wait_for_window
from spark_integration.session.connector import check_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from noted_time.kafka import Topic
    from noted_time.kafka.topic import TopicLook

READABLE_TIMEOUT_S = 5.0  # a broker's ends lag behind the noted records

ENDS_EVERY_S = 0.05

RANGE_OPTIONS = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
)


class OffsetRange(NamedTuple):
    """The records of a partition from `start` to `end` (exclusive)."""

    start: int
    end: int


def read_complete_kafka(  # noqa: PLR0913 - keyword-only but for five
    spark: SparkSession,
    records: KafkaRecords,
    noted: Noted,
    start: Time,
    end: Time,
    *options: BatchRead,
    event_time: str,
    domain: str | None = None,
    late: OnMissing = "warn",
) -> DataFrame:
    """Return the events of a Kafka topic with `start` <= time < `end`, once they are complete.

    Spark's batch source reads the `records` of one topic. `event_time` is as in `read_noted_kafka`,
    other arguments as in `read_complete`.

    The read starts

    - at the start cut, if `own_segments` is set and the cut is known.
    - at the first record with a timestamp at or above `start`, if ``event_time="timestamp"``
      without `parse`.
    - at the first records that Kafka still has, otherwise. This is logged.

    Raises the errors of `read_complete`, and

    - `AnotherLog` if the writers noted another topic.
    - `Recreated` if a partition is missing, or ends below the window's cut.
    - `Rejected` if deleted records may have been in the window, unless the read accepts this.
    - `Unreachable` if a partition has no leader, or an open transaction holds back records.
    """
    batch_read: BatchRead = choose_options(options, {BatchRead: "read"}).get("read", BatchRead())
    if batch_read.cores is not None:
        raise Rejected("cores divide the read of a file log; of a topic it is option minPartitions")
    check_promised(domain)
    topic, source_options = open_topic(spark, records, "read_complete_kafka")
    noted = replace(noted, stream=noted.stream or topic.name)
    window = wait_for_window(
        noted, start, end, domain=domain, read=batch_read, late=late, log_id=topic.look().id
    )
    reads_committed = is_committed(source_options)
    wait_until_readable(topic, window.to_cut.offsets, timeout_s=READABLE_TIMEOUT_S)
    if reads_committed:
        patience_s = max(READABLE_TIMEOUT_S, batch_read.timeout)
        wait_until_readable(
            topic, window.to_cut.offsets, timeout_s=patience_s, reads_committed=True
        )
    begins, time_offsets = _find_begins(topic, window, batch_read.deleted)
    first_offsets = _find_first_offsets(window, own_segments=batch_read.own_segments)
    if not first_offsets and records.parse is None and event_time == KAFKA_TIME:
        first_offsets = time_offsets
    ranges = find_needed_ranges(window, begins, first_offsets)
    if not first_offsets:
        _log_read_ranges(topic.name, ranges)
    rows = read_records(spark, topic.name, ranges, source_options)
    events = require_event_time(records.parsed(rows), event_time)
    time = F.col(f"`{event_time}`")
    start_at = F.timestamp_millis(F.lit(window.start))
    end_at = F.timestamp_millis(F.lit(window.end))
    return events.where((time >= start_at) & (time < end_at))


def open_topic(
    spark: SparkSession, records: KafkaRecords, reader: str
) -> tuple[Topic, dict[str, Any]]:
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    if not isinstance(records.topic, str):
        raise Rejected(f"{reader} reads one topic, not {list(records.topic)}")
    topic = validate_name("topic", records.topic)
    check_connector(spark)
    source_options = normalize_options(records, reader, *RANGE_OPTIONS)
    return Topic(build_client_config(source_options, records.client), topic), source_options


def find_needed_ranges(
    window: CompleteWindow, begins: Mapping[int, int], first_offsets: Mapping[int, int]
) -> dict[int, OffsetRange]:
    """Return the range to read of each partition: from `first_offsets` to the window's end cut.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 8, 1: 8}), 1, 0)
    >>> find_needed_ranges(window, {0: 0, 1: 7, 2: 4}, {0: 5})
    {0: OffsetRange(start=5, end=8), 1: OffsetRange(start=7, end=8), 2: OffsetRange(start=4, end=4)}
    """
    ranges = {}
    for partition, begin in sorted(begins.items()):
        end = max(begin, window.to_cut.offsets.get(partition, begin))
        start = max(begin, first_offsets.get(partition, begin))
        ranges[partition] = OffsetRange(min(start, end), end)
    return ranges


def find_deleted_ranges(
    window: CompleteWindow, begins: Mapping[int, int], time_offsets: Mapping[int, int]
) -> dict[int, OffsetRange]:
    """Return the deleted records that may have been in a window.

    If the start cut is unknown, a partition counts unless it still has a record before the window:
    Kafka deletes the oldest first. `time_offsets` has the first offsets at or after the window's
    start.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 8, 1: 8}), 1, 0)
    >>> find_deleted_ranges(window, {0: 3, 1: 3}, {0: 4, 1: 3})
    {1: OffsetRange(start=0, end=3)}
    """
    deleted_ranges = {}
    for partition, end in window.to_cut.offsets.items():
        begin = begins[partition]
        first = window.from_cut.offsets.get(partition, 0)
        is_certain = not window.exact and time_offsets.get(partition, begin) > begin
        if first < min(begin, end) and not is_certain:
            deleted_ranges[partition] = OffsetRange(first, min(begin, end))
    return deleted_ranges


def _find_first_offsets(window: CompleteWindow, *, own_segments: bool) -> Mapping[int, int]:
    if not (own_segments and window.exact):
        return {}
    starts = window.from_cut.offsets
    return {partition: starts.get(partition, 0) for partition in window.to_cut.offsets}


def _find_begins(
    topic: Topic, window: CompleteWindow, policy: OnDeleted
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return the first offsets that Kafka still has, and those at or after the window's start.

    Under the policy "fail", raises `Rejected` if deleted records may have been in the window.
    """
    time_offsets = topic.offsets_at(max(0, window.start))  # first, to notice later deletions
    begins = topic.begins()
    topic.check_leaders(window.to_cut.offsets.keys() - begins.keys())
    deleted_ranges = find_deleted_ranges(window, begins, time_offsets)
    if not deleted_ranges:
        return begins, time_offsets
    range_texts: list[str] = []
    for partition, offset_range in deleted_ranges.items():
        range_texts.append(f"partition {partition}, {offset_range.start} to {offset_range.end}")
    message = (
        f"topic {topic.name!r}: records were deleted that may have been in the window from "
        f"{format_time(window.start)} to {format_time(window.end)}: {'; '.join(range_texts)}"
    )
    if policy == "fail":
        remedy = "read it sooner, or keep records for longer (retention.ms)"
        raise Rejected(f'{message}; {remedy}. deleted="accept" reads the rest')
    log.warning("%s", message)
    return begins, time_offsets


def wait_until_readable(
    topic: Topic, cut: Mapping[int, int], *, timeout_s: float, reads_committed: bool = False
) -> TopicLook:
    """Wait until readers of the topic reach a cut, and return its ends then.

    With `reads_committed`, open transactions hold readers back.
    """
    deadline = clocks.monotonic() + timeout_s
    while True:
        look = topic.look(committed=reads_committed)
        missing_offsets = find_missing_offsets(look.ends, cut)
        if not missing_offsets:
            return look
        if clocks.monotonic() >= deadline:
            break
        clocks.sleep(ENDS_EVERY_S)
    topic.check_leaders(look.unknown.intersection(cut))
    first_missing = missing_offsets[0]
    if reads_committed:
        raise Unreachable(
            f"topic {topic.name!r}, partition {first_missing.segment}: a transaction that is still "
            f"open holds back readers of committed records at {first_missing.offset}, and the end "
            f"cut is at {first_missing.needed}: read it later, or see page 'Symptoms and "
            "remedies', section 'A transaction hangs'"
        )
    fault = "does not exist"
    if first_missing.segment in look.ends:
        fault = f"ends at {first_missing.offset}"
    raise topic.build_recreated(
        f"partition {first_missing.segment} {fault}, and the writers noted {first_missing.needed} "
        "(or the stream is of another topic)"
    )


def read_records(
    spark: SparkSession, topic: str, ranges: Mapping[int, OffsetRange], options: Mapping[str, Any]
) -> DataFrame:
    starts = {partition: offset_range.start for partition, offset_range in ranges.items()}
    ends = {partition: offset_range.end for partition, offset_range in ranges.items()}
    reader = spark.read.format("kafka").options(**options)
    reader = reader.option("assign", json.dumps({topic: sorted(ranges)}))
    reader = reader.option("startingOffsets", json.dumps({topic: position_to_wire(starts)}))
    reader = reader.option("endingOffsets", json.dumps({topic: position_to_wire(ends)}))
    return reader.load()


def _log_read_ranges(topic: str, ranges: Mapping[int, OffsetRange]) -> None:
    number = sum(offset_range.end - offset_range.start for offset_range in ranges.values())
    if not number:
        return
    log.warning(
        "topic %r: all %d offsets below the window's end cut are read, because it is not known "
        "where the window begins. Set own_segments=True if no two producers write to one "
        "partition, or event_time='timestamp' if the records' timestamps are the event times",
        topic,
        number,
    )
