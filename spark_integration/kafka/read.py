"""Reads Kafka topics with Spark's own source and an exact watermark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from noted_time.reading import WHOLE_LOG, WholeFrom, combine_whole
from noted_time.values import MAX_INT64
from spark_integration.checkpoint.source_positions import KafkaTopic, PositionOf
from spark_integration.kafka.client import build_client_config
from spark_integration.kafka.records import (
    LAG_REMEDY,
    MOST_ROWS,
    STARTING_OFFSETS,
    KafkaRecords,
    choose_topic_options,
    find_ahead_limit,
    is_committed,
    normalize_options,
    read_events,
)
from spark_integration.kafka.topic_streams import (
    find_ids,
    find_logs,
    find_streams,
    is_remote,
    map_streams,
)
from spark_integration.marks.arguments import SAFE_POLICY, Noted, WatermarkPolicy, check_one_of
from spark_integration.marks.reader_options import CatchUp, Ingestion, find_lag_ms
from spark_integration.marks_source.query import KafkaPlanning, MarksQuery
from spark_integration.marks_source.read import read_marks, unite_with_marks
from spark_integration.session.connector import check_connector
from spark_integration.session.settings import EVENTS_SUFFIX, build_source_name
from spark_integration.session.versions import require

if TYPE_CHECKING:
    from spark_integration.marks_source.topics import TopicPlanner

Marks = Literal["ahead", "committed"]

RELAYED_REMEDY = (
    'marks="topic" has become read_relayed_kafka: call it with the same arguments, without marks= '
    "and checkpoint_location="
)


def read_noted_kafka(  # noqa: PLR0913 - all but two are given by keyword
    spark: SparkSession,
    records: KafkaRecords,
    noted: Noted | None = None,
    *options: CatchUp | Ingestion,
    event_time: str,
    checkpoint_location: str | None = None,
    marks: Marks = "ahead",
    domain: str | None = None,
    policy: WatermarkPolicy = SAFE_POLICY,
) -> DataFrame:
    """Return the events of Kafka topics, with a watermark that the producers vouch for.

    Spark's own source reads the `records`, by default from the earliest offsets. Each topic has a
    stream, by default of the same name, and its partitions are segments. The least lower of all
    streams is the watermark. `event_time` is a timestamp column of the parsed events, or
    ``"timestamp"`` if the producers note the times of Kafka's records. A record without an event
    time fails the query, unless `parse` drops or repairs it.

    `checkpoint_location` is the query's `checkpointLocation`. `marks` selects how marks are read:

    - ``"ahead"``: A mark comes in the micro-batch of its rows, because the planner reads the ends
      of the topic. If the rows are not read in time, the query fails before it drops any.
    - ``"committed"``: A mark comes one micro-batch later, once the offset log shows that its cut is
      read. ``"ahead"`` also does this with availableNow, with the options `maxOffsetsPerTrigger`,
      `minOffsetsPerTrigger` and `maxTriggerDelay`, and under
      ``spark.sql.streaming.statefulOperator.allowMultiple=false``.

    `read_relayed_kafka` reads the marks from a topic, also with Spark 3.5 to 4.1.

    If rows were deleted before a new query began at the earliest offsets, a warning shows until
    when windows may lack rows. A policy with ``first_windows="skip"`` skips them.

    `options` are values, at most one of each type. An `Ingestion` with ``domain="ingestion"`` uses
    the marks of an observer (`writer_client.IngestionNoter`), less `max_event_time_lag_ms`. A
    `CatchUp` flags micro-batches in the offset log by whether the query has a backlog.

    Raises `AnotherLog` if the stream belongs to another topic, such as the original of a mirror,
    and `Unreachable` if no broker answers. Raises `InvalidName`, `UnknownStream`, `UnknownDomain`,
    `NotAllowed` and `UnexpectedAnswer` for the stream. Raises `Rejected` for options that cannot be
    combined, an unknown topic, and a session without the Kafka connector. With Spark Connect,
    topics and streams are checked when the query starts.

    The query fails with `Recreated` if a topic was recreated, or lost rows or partitions that were
    read. It fails with `Rejected` if rows below the cut of the query's mark were deleted, and with
    `Unreachable` if they have no leader for half a minute.
    """
    _check_marks(marks)
    option_by_field = choose_topic_options(options, {CatchUp: "catch_up", Ingestion: "ingestion"})
    catch_up: CatchUp | None = option_by_field.get("catch_up")
    lag_ms = find_lag_ms(domain, option_by_field.get("ingestion"), LAG_REMEDY)
    require(f'read_noted_kafka(marks="{marks}")', spark.version)
    noted = noted or Noted()
    streams = map_streams(records.topic, noted.stream)
    source_options = normalize_options(records, "read_noted_kafka")
    planning = KafkaPlanning(
        topics=streams,
        ahead=marks == "ahead",
        limit=find_ahead_limit(spark, source_options),
        committed=is_committed(source_options),
        begun=_list_streams_to_judge(streams, source_options),
    )
    check_connector(spark)
    query = MarksQuery(
        streams=_map_positions(streams),
        controller_url=_require_option(
            "a controller, Noted(controller=URL)", noted.controller, marks
        ),
        checkpoint=_require_option("checkpoint_location=", checkpoint_location, marks),
        domain=domain,
        policy=policy,
        kafka=planning,
        lag_ms=lag_ms,
        backlog=catch_up.policy if catch_up else None,
    )
    config = build_client_config(source_options, records.client)
    secrets = (noted.token, config)
    topic_ids: Mapping[str, str | None] = {}
    if not is_remote(spark):  # Connect's server finds them
        topic_ids = find_ids(streams, config)
    find_logs(find_streams(spark, streams, domain, noted), topic_ids)
    if catch_up is not None:
        source_options = _limit_rows(spark, catch_up, source_options, query, secrets)
    whole_by_stream = planning.begun
    if policy.first_windows == "skip":
        whole_by_stream, start_options = _skip_partial(spark, query, secrets)
        query = replace(query, kafka=replace(planning, begun=whole_by_stream))
        source_options = {**source_options, **start_options}
    source_name = build_source_name("marks", streams, domain) + EVENTS_SUFFIX
    events = read_events(spark, source_name, records, source_options, event_time)
    complete_events = _drop_partial(events, event_time, whole_by_stream)
    marks_frame = read_marks(spark, query, noted.token, config)
    return unite_with_marks([marks_frame], complete_events, event_time, policy)


def _check_marks(marks: str) -> None:
    if marks == "topic":
        raise Rejected(RELAYED_REMEDY)
    check_one_of("marks", marks, Marks)


def _list_streams_to_judge(
    topics: Mapping[str, str], options: Mapping[str, Any]
) -> Mapping[str, WholeFrom | None]:
    """Return the streams whose new query begins with its topic, so rows may be missing before it.

    It is not known yet from when on their topics are complete.
    """
    if not begins_with_topic(options):
        return {}
    return dict.fromkeys(topics, WholeFrom())


def _map_positions(topics: Mapping[str, str]) -> dict[str, PositionOf]:
    """Return for each stream a function that finds its position in the offset of Spark's source."""
    mappers: dict[str, PositionOf] = {}
    for stream, topic in topics.items():
        mappers[stream] = KafkaTopic(topic)
        if len(topics) > 1:
            mappers[stream] = KafkaTopic(topic).among_others
    return mappers


def _drop_partial(
    events: DataFrame, event_time: str, whole_by_stream: Mapping[str, WholeFrom | None]
) -> DataFrame:
    """Return the events at or above the first time of complete topics, if it is known."""
    whole_from_ms = combine_whole(whole_by_stream.values()).time
    if whole_from_ms in (None, WHOLE_LOG.time):
        return events
    return events.where(F.col(f"`{event_time}`") >= F.timestamp_millis(F.lit(whole_from_ms)))


def _limit_rows(
    spark: SparkSession,
    catch_up: CatchUp,
    options: dict[str, Any],
    query: MarksQuery,
    secrets: tuple[str | None, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the options of Spark's source, with the limit of `CatchUp` if there is a backlog."""
    usual_limit = options.get(MOST_ROWS)
    larger_limit = catch_up.max_rows_per_trigger
    if usual_limit is None and larger_limit is not None:
        raise Rejected(
            f"max_rows_per_trigger of CatchUp replaces {MOST_ROWS}, which the options of records "
            f"do not set, so micro-batches have no limit: set {MOST_ROWS}, or leave the other out"
        )
    if usual_limit is None:
        return options
    catch_up.check_above(int(usual_limit), f"option {MOST_ROWS}")
    topics = query.kafka.topics if query.kafka else {}
    starting_offsets = parse_starting_offsets(options.get(STARTING_OFFSETS, "earliest"), topics)
    with closing(_create_planner(spark, f"CatchUp with {MOST_ROWS}", query, secrets)) as planner:
        is_behind = planner.judge_backlog(planner.follow_last(), starting_offsets)
    if not is_behind:
        return options
    other_options = {name: value for name, value in options.items() if name != MOST_ROWS}
    if larger_limit is None:
        return other_options
    return {**other_options, MOST_ROWS: larger_limit}


def begins_with_topic(options: Mapping[str, Any]) -> bool:
    """Return whether a new query begins at the start of its topics.

    >>> begins_with_topic({"startingOffsets": "Earliest"}), begins_with_topic({"startingtime": 1})
    (True, False)
    """
    for name, value in options.items():
        if name.lower().startswith("starting") and str(value).lower() != "earliest":
            return False
    return True


def _skip_partial(
    spark: SparkSession, query: MarksQuery, secrets: tuple[str | None, Mapping[str, Any]]
) -> tuple[dict[str, WholeFrom | None], dict[str, str]]:
    """Return the first time of complete topics, and the options to begin there."""
    with closing(_create_planner(spark, 'first_windows="skip"', query, secrets)) as planner:
        whole_by_stream, begins_by_topic = planner.wait_for_whole()
    whole_from = combine_whole(whole_by_stream.values())
    if whole_from.time is None:
        raise Rejected(f'first_windows="skip" is not possible: {whole_from.sentence}')
    start_options: dict[str, str] = {}
    if begins_by_topic:
        start_options[STARTING_OFFSETS] = json.dumps(begins_by_topic)
    return whole_by_stream, start_options


def _create_planner(
    spark: SparkSession,
    feature: str,
    query: MarksQuery,
    secrets: tuple[str | None, Mapping[str, Any]],
) -> TopicPlanner:
    if is_remote(spark):
        raise Rejected(f"{feature} needs the checkpoint, which only Connect's server has: omit it")
    from spark_integration.marks_source.topics import create_planner  # noqa: PLC0415 - not in every PySpark

    return create_planner(query, *secrets)


def parse_starting_offsets(offsets: str, topics: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """Return the positions in `startingOffsets` by stream, or nothing if unknown.

    >>> parse_starting_offsets('{"flights": {"0": 7, "1": -2, "2": -1}}', {"f": "flights"})
    {'f': {0: 7, 1: 0, 2: 9223372036854775807}}
    >>> parse_starting_offsets("earliest", {"f": "flights"}), parse_starting_offsets("latest",
    ...     {"f": "flights"})
    ({'f': {}}, {})
    """
    if offsets.lower() == "earliest":
        return {stream: {} for stream in topics}
    if not offsets.startswith("{"):
        return {}
    offsets_by_topic: Mapping[str, Mapping[str, int]] = json.loads(offsets)
    special_offsets = {-2: 0, -1: MAX_INT64}
    positions: dict[str, dict[int, int]] = {}
    for stream, topic in topics.items():
        position: dict[int, int] = {}
        for partition, offset in offsets_by_topic.get(topic, {}).items():
            position[int(partition)] = special_offsets.get(offset, offset)
        positions[stream] = position
    return positions


def _require_option(name: str, value: str | None, marks: Marks) -> str:
    if not value:
        raise Rejected(f'marks="{marks}" needs {name}')
    return value
