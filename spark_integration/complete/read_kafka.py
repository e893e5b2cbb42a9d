"""How a batch job reads a window of time from a Kafka topic, by offsets, once it is complete."""

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
from spark_integration.complete.window import BatchRead, OnDeleted, OnMissing, log, wait_for_window
from spark_integration.kafka.client import build_client_config
from spark_integration.kafka.records import (
    KAFKA_TIME,
    KafkaRecords,
    is_committed,
    normalize_options,
    require_event_time,
)
from spark_integration.log.options import choose_options
from spark_integration.marks.arguments import Noted, check_promised
from spark_integration.session.connector import check_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from noted_time.kafka import Topic
    from noted_time.kafka.topic import TopicLook

EARLIEST_OFFSET = -2
"""Spark's word for the first offset that a partition of a topic still has."""

READABLE_TIMEOUT_S = 5.0
"""How long what a writer noted may take to be readable: a broker's ends lag a little behind."""

ENDS_EVERY_S = 0.05
"""Pause between two looks at a topic's ends."""

RANGE_OPTIONS = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
)
"""The options of Spark's Kafka source that say which records to read."""


class KafkaOffsets(NamedTuple):
    """The options `startingOffsets` and `endingOffsets` of a batch read of a Kafka topic."""

    starting: str
    ending: str


class OffsetRange(NamedTuple):
    """The records of a partition from one offset to another, exclusive."""

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
    """Return the events with `start` <= time < `end` of a Kafka topic, once it is complete.

    They are those that lie below the cut of the first mark with a lower at or above `end`, so reads
    of consecutive windows return each event once. Spark's own batch source reads the `records`, of
    one topic. The stream is the one of its name, or that of `noted`. `event_time` is as in
    `read_noted_kafka`, and the other arguments are those of `read_complete`.

    The read begins at the start cut with `own_segments`, if that cut is known; with
    ``event_time="timestamp"`` and no `parse` at the first record with a timestamp at or above
    `start`, because the producers note the times that they give to Kafka; otherwise at the first
    records that Kafka still has, which is logged.

    Raises what `read_complete` raises; `AnotherLog` if the topic is not the one that the writers
    noted of, by its id; `Recreated` if it is not by its offsets: a partition is not there, or ends
    below the window's cut; `Rejected` if records were deleted that may have been in the window,
    unless that is accepted; `Unreachable` if a partition has no leader, or if a transaction is
    still open that holds readers of committed records below the cut, when the read's timeout is
    over.
    """
    read: BatchRead = choose_options(options, {BatchRead: "read"}).get("read", BatchRead())
    if read.cores is not None:
        raise Rejected("cores divide the read of a file log; of a topic it is option minPartitions")
    check_promised(domain, event_time)
    there, chosen = open_topic(spark, records, "read_complete_kafka")
    noted = replace(noted, stream=noted.stream or there.name)
    window = wait_for_window(
        noted,
        start,
        end,
        event_time=event_time,
        domain=domain,
        read=read,
        late=late,
        log_id=there.look().id,
    )
    committed = is_committed(chosen)
    wait_until_readable(there, window.to_cut.offsets, timeout_s=READABLE_TIMEOUT_S)
    if committed:
        patience_s = max(READABLE_TIMEOUT_S, read.timeout)
        wait_until_readable(there, window.to_cut.offsets, timeout_s=patience_s, committed=True)
    begins, since = _find_begins(there, window, read.deleted)
    firsts = _find_first_offsets(window, own_segments=read.own_segments)
    if not firsts and records.parse is None and event_time == KAFKA_TIME:
        firsts = since
    ranges = find_needed_ranges(window, begins, firsts)
    if not firsts:
        _log_read_ranges(there.name, ranges)
    rows = read_records(spark, there.name, ranges, chosen)
    events = require_event_time(records.parsed(rows), event_time)
    time = F.col(f"`{event_time}`")
    first, end_at = (F.timestamp_millis(F.lit(each)) for each in (window.start, window.end))
    return events.where((time >= first) & (time < end_at))


def open_topic(
    spark: SparkSession, records: KafkaRecords, reader: str
) -> tuple[Topic, dict[str, Any]]:
    """Return the one topic that a reader reads, and the options with which Spark does."""
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    if not isinstance(records.topic, str):
        raise Rejected(f"{reader} reads one topic, not {list(records.topic)}")
    topic = validate_name("topic", records.topic)
    check_connector(spark)
    chosen = normalize_options(records.options, reader, *RANGE_OPTIONS)
    there = Topic(build_client_config(records.bootstrap, chosen, records.client), topic)
    return there, {**chosen, "kafka.bootstrap.servers": records.bootstrap}


def kafka_offsets(
    window: CompleteWindow, topic: str | Topic, *, own_segments: bool = False
) -> KafkaOffsets:
    """Return the offsets between which a batch read of a Kafka topic has all rows of a window.

    Its partitions are the segments. Filter what is read by the event time, as rows of other windows
    lie there too. The read begins at the first offsets there are, or with `own_segments` (no two
    producers ever write to one partition) at the start cut, if that is known.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({0: 5}), StreamCut({0: 8, 1: 3}), 1, 0, exact=True)
    >>> starting, ending = kafka_offsets(window, "flights", own_segments=True)
    >>> starting, ending
    ('{"flights": {"0": 5, "1": -2}}', '{"flights": {"0": 8, "1": 3}}')

    These are the partitions that the window's cut names: read them with the option `assign`. Of a
    `noted_time.kafka.Topic` the broker is asked, and all partitions are there, as `subscribe`
    wants: the others have no rows of the window. Then this raises as `read_complete_kafka`, if rows
    were deleted or the topic is another one.
    """
    if not isinstance(topic, str):
        wait_until_readable(topic, window.to_cut.offsets, timeout_s=READABLE_TIMEOUT_S)
        begins, _ = _find_begins(topic, window, "fail")
        firsts = _find_first_offsets(window, own_segments=own_segments)
        return _format_offsets(topic.name, find_needed_ranges(window, begins, firsts))
    ending = window.to_cut.offsets
    known = window.from_cut.offsets if own_segments else {}
    starts = {segment: known.get(segment, EARLIEST_OFFSET) for segment in ending}
    return _format_offsets(
        topic, {segment: OffsetRange(starts[segment], ending[segment]) for segment in ending}
    )


def find_needed_ranges(
    window: CompleteWindow, begins: Mapping[int, int], firsts: Mapping[int, int]
) -> dict[int, OffsetRange]:
    """Return what to read of each partition: from `firsts` up to the window's end cut.

    `begins` has the first offset that each of them still has. A partition that the cut does not
    name has no record of the window.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 8, 1: 8}), 1, 0)
    >>> find_needed_ranges(window, {0: 0, 1: 7, 2: 4}, {0: 5})
    {0: OffsetRange(start=5, end=8), 1: OffsetRange(start=7, end=8), 2: OffsetRange(start=4, end=4)}
    """
    ranges = {}
    for partition, begin in sorted(begins.items()):
        end = max(begin, window.to_cut.offsets.get(partition, begin))
        ranges[partition] = OffsetRange(min(end, max(begin, firsts.get(partition, begin))), end)
    return ranges


def find_deleted_ranges(
    window: CompleteWindow, begins: Mapping[int, int], since: Mapping[int, int]
) -> dict[int, OffsetRange]:
    """Return the records that were deleted and may have been in a window.

    If its start cut is known, these are the deleted ones above it. If it is not, they are all that
    were deleted of a partition, unless a record is left that is older than the window, by its
    timestamp: Kafka deletes the oldest first. `since` has the first offsets with younger ones.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 8, 1: 8}), 1, 0)
    >>> find_deleted_ranges(window, {0: 3, 1: 3}, {0: 4, 1: 3})
    {1: OffsetRange(start=0, end=3)}
    """
    deleted = {}
    for partition, end in window.to_cut.offsets.items():
        begin = begins[partition]
        first = window.from_cut.offsets.get(partition, 0)
        is_certain = not window.exact and since.get(partition, begin) > begin
        if first < min(begin, end) and not is_certain:
            deleted[partition] = OffsetRange(first, min(begin, end))
    return deleted


def _find_first_offsets(window: CompleteWindow, *, own_segments: bool) -> Mapping[int, int]:
    """Return the offsets below which none of the window's records lies, empty if not known."""
    if not (own_segments and window.exact):
        return {}
    return {each: window.from_cut.offsets.get(each, 0) for each in window.to_cut.offsets}


def _find_begins(
    topic: Topic, window: CompleteWindow, deleted: OnDeleted
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return where partitions begin, and where records with timestamps from the start on do.

    The latter first: what is deleted in between is noticed.
    """
    since = topic.offsets_at(max(0, window.start))
    begins = topic.begins()
    topic.check_leaders(window.to_cut.offsets.keys() - begins.keys())
    if lost := find_deleted_ranges(window, begins, since):
        named = "; ".join(f"partition {p}, {each.start} to {each.end}" for p, each in lost.items())
        message = (
            f"topic {topic.name!r}: records were deleted that may have been in the window from "
            f"{format_time(window.start)} to {format_time(window.end)}: {named}"
        )
        if deleted == "fail":
            remedy = "read it sooner, or keep records for longer (retention.ms)"
            raise Rejected(f'{message}; {remedy}. With deleted="accept" the rest is read')
        log.warning("%s", message)
    return begins, since


def wait_until_readable(
    topic: Topic, cut: Mapping[int, int], *, timeout_s: float, committed: bool = False
) -> TopicLook:
    """Wait until all below the end cut can be read, and return the look; raises why it cannot."""
    deadline = clocks.monotonic() + timeout_s
    while True:
        look = topic.look(committed=committed)
        behind = find_missing_offsets(look.ends, cut)
        if not behind:
            return look
        if clocks.monotonic() >= deadline:
            break
        clocks.sleep(ENDS_EVERY_S)
    topic.check_leaders(look.unknown.intersection(cut))
    first = behind[0]
    if committed:
        raise Unreachable(
            f"topic {topic.name!r}, partition {first.segment}: a transaction that is still open "
            f"holds readers of committed records at {first.offset}, and the end cut is at "
            f"{first.needed}: read it later, or see page 'Symptoms and remedies', section 'A "
            "transaction hangs'"
        )
    ends = f"ends at {first.offset}" if first.segment in look.ends else "does not exist"
    fact = f"partition {first.segment} {ends}, and the writers noted {first.needed}"
    raise topic.build_recreated(f"{fact} (or the stream is of another topic)")


def read_records(
    spark: SparkSession, topic: str, ranges: Mapping[int, OffsetRange], options: Mapping[str, Any]
) -> DataFrame:
    """Return the records; Spark fails the read if some are deleted before it comes to them."""
    offsets = _format_offsets(topic, ranges)
    reader = spark.read.format("kafka").options(**options)
    reader = reader.option("assign", json.dumps({topic: sorted(ranges)}))
    reader = reader.option("startingOffsets", offsets.starting)
    return reader.option("endingOffsets", offsets.ending).load()


def _format_offsets(topic: str, ranges: Mapping[int, OffsetRange]) -> KafkaOffsets:
    starts, ends = ({p: each[n] for p, each in ranges.items()} for n in (0, 1))
    return KafkaOffsets(*(json.dumps({topic: position_to_wire(each)}) for each in (starts, ends)))


def _log_read_ranges(topic: str, ranges: Mapping[int, OffsetRange]) -> None:
    number = sum(each.end - each.start for each in ranges.values())
    if not number:
        return
    log.warning(
        "topic %r: all %d offsets below the window's end cut are read, since it is not known where "
        "the window begins in the partitions: own_segments=True tells that no two producers write "
        "to one partition, and event_time='timestamp' that its records' timestamps are the times",
        topic,
        number,
    )
