"""Reads Kafka topics with Spark's own source and an exact watermark."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import AnotherLog, NotedTimeError, Rejected
from noted_time.client.transport import Transport
from noted_time.reading import WHOLE_LOG, WholeFrom, combine_whole
from noted_time.values import MAX_INT64, choose_domain, validate_name
from reader_client.protocol.answers import StreamReply
from spark_integration.checkpoint.source_positions import KafkaTopic, PositionOf
from spark_integration.kafka.client import CLIENT_PREFIX, build_client_config
from spark_integration.kafka.records import (
    KafkaRecords,
    is_committed,
    normalize_options,
    require_event_time,
)
from spark_integration.kafka.topic_marks import WantedMarks, check_exact
from spark_integration.marks.arguments import (
    EVENT_TIMES_REMEDY,
    SAFE_POLICY,
    Noted,
    WatermarkPolicy,
    check_one_of,
)
from spark_integration.marks.feed import check_known
from spark_integration.marks.reader_options import CatchUp, Ingestion, choose_options, find_lag_ms
from spark_integration.marks_source.query import AheadLimit, KafkaPlanning, MarksQuery
from spark_integration.marks_source.read import check_events, read_marks, unite_with_marks
from spark_integration.session.connector import check_connector
from spark_integration.session.settings import (
    EVENTS_SUFFIX,
    build_source_name,
    read_setting,
    set_reader_name,
)
from spark_integration.session.versions import require

if TYPE_CHECKING:
    from spark_integration.marks_source.topics import TopicPlanner

log = logging.getLogger("noted_time.spark")

Marks = Literal["ahead", "committed", "topic"]

STARTING_OFFSETS = "startingOffsets"
MOST_ROWS = AheadLimit.MOST_ROWS.value

FILE_LOG_OPTIONS = {
    "ReadRange": "read_complete_kafka reads a range of event times",
    "Columns": "parse= of the records selects columns, and read_late_kafka reads late rows",
    "Batches": f"{MOST_ROWS}, among the options of the records, limits a micro-batch",
}
"""The name of each option of file logs, and what a reader of topics uses in its place."""

LAG_REMEDY = (
    f"{EVENT_TIMES_REMEDY}; or pass Ingestion(max_event_time_lag_ms=…), if no record is older than "
    "that when it comes in"
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
    - ``"topic"``: Spark also reads the marks, from the topic `TOPIC.noted` of a relay. This needs
      no `checkpoint_location`. Options that delay rows are refused, and must not be added at a
      restart, because nothing is checked later. See `docs/guides/kafka-marks.md`.

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
    `Unreachable` if they have no leader for half a minute. With ``marks="topic"`` it fails with
    Spark's error if a record is not a mark of the stream.
    """
    check_one_of("marks", marks, Marks)
    _check_policy(marks, policy)
    catch_up, lag_ms = _split_options(options, marks, domain)
    require(f'read_noted_kafka(marks="{marks}")', spark.version)
    noted = noted or Noted()
    streams = _map_streams(records.topic, noted.stream)
    chosen = normalize_options(records, "read_noted_kafka")
    limit = _find_ahead_limit(spark, chosen)
    check_connector(spark)
    name = (
        build_source_name("kafka" if marks == "topic" else "marks", streams, domain) + EVENTS_SUFFIX
    )
    if marks == "topic":
        events = _read_events(spark, records, streams, chosen, (name, event_time))
        check_exact(spark, streams, limit)
        connection = {
            name: value for name, value in chosen.items() if name.startswith(CLIENT_PREFIX)
        }
        known = _find_streams(spark, streams, domain, noted)
        wanted_marks = WantedMarks(
            streams,
            {
                s: domain or (choose_domain(each.domains) if each else None)
                for s, each in known.items()
            },
            _find_logs(known, _find_ids_if_known(spark, records, chosen, streams)),
            connection,
            policy,
            lag_ms,
        )
        return unite_with_marks(wanted_marks.read(spark), events, event_time, policy)
    several = len(streams) > 1
    judged = streams if begins_with_topic(chosen) else ()
    begun: dict[str, WholeFrom | None] = dict.fromkeys(judged, WholeFrom())
    kafka = KafkaPlanning(streams, marks == "ahead", limit, is_committed(chosen), begun)
    query = MarksQuery(
        {name: _choose_position_of(each, several=several) for name, each in streams.items()},
        _require_option("a controller, Noted(url)", noted.url, marks),
        _require_option("checkpoint_location=", checkpoint_location, marks),
        domain=domain,
        policy=policy,
        kafka=kafka,
        lag_ms=lag_ms,
        backlog=catch_up.policy if catch_up else None,
    )
    config = build_client_config(chosen, records.client)
    ids = {} if _is_remote(spark) else _find_ids(streams, config)  # Connect's server finds them
    _find_logs(_find_streams(spark, streams, domain, noted), ids)
    if catch_up is not None:
        chosen = _limit_rows(spark, catch_up, chosen, query, (noted.token, config))
    if policy.first_windows == "skip":
        begun, start = _skip_partial(spark, query, (noted.token, config))
        query, chosen = replace(query, kafka=replace(kafka, begun=begun)), {**chosen, **start}
    events = _read_events(spark, records, streams, chosen, (name, event_time))
    since = combine_whole(begun.values()).time
    if since not in (None, WHOLE_LOG.time):
        events = events.where(F.col(f"`{event_time}`") >= F.timestamp_millis(F.lit(since)))
    sides = [read_marks(spark, query, noted.token, config)]
    return unite_with_marks(sides, events, event_time, policy)


def _check_policy(marks: Marks, policy: WatermarkPolicy) -> None:
    if marks == "topic":
        policy.check_partial('read_noted_kafka(marks="topic")')
    if policy.batch_after_mark and marks == "topic":
        raise Rejected(
            'with marks="topic" Spark plans the micro-batches, so batch_after_mark has no effect: '
            "leave it out, and the last claim comes with the next mark or record; or read with "
            'marks="ahead" or marks="committed"'
        )


def _split_options(
    options: Sequence[object], marks: Marks, domain: str | None
) -> tuple[CatchUp | None, int]:
    for option in options:
        option_name = type(option).__name__
        if remedy := FILE_LOG_OPTIONS.get(option_name):
            raise Rejected(f"{option_name} is an option of file logs: {remedy}")
    chosen = choose_options(options, {CatchUp: "catch_up", Ingestion: "ingestion"})
    catch_up: CatchUp | None = chosen.get("catch_up")
    if catch_up is not None and marks == "topic":
        raise Rejected(
            'with marks="topic" nothing compares the query with its stream, so CatchUp has no '
            'effect: read with marks="ahead" or marks="committed"'
        )
    return catch_up, find_lag_ms(domain, chosen.get("ingestion"), LAG_REMEDY)


def _limit_rows(
    spark: SparkSession,
    catch_up: CatchUp,
    options: dict[str, Any],
    query: MarksQuery,
    secrets: tuple[str | None, Mapping[str, Any]],
) -> dict[str, Any]:
    usual, larger = options.get(MOST_ROWS), catch_up.max_rows_per_trigger
    if usual is None and larger is not None:
        raise Rejected(
            f"max_rows_per_trigger of CatchUp replaces {MOST_ROWS}, which the options of records "
            f"do not set, so micro-batches have no limit: set {MOST_ROWS}, or leave the other out"
        )
    if usual is None:
        return options
    catch_up.check_above(int(usual), f"option {MOST_ROWS}")
    topics = query.kafka.topics if query.kafka else {}
    starting = parse_starting_offsets(options.get(STARTING_OFFSETS, "earliest"), topics)
    with closing(_create_planner(spark, f"CatchUp with {MOST_ROWS}", query, secrets)) as planner:
        if not planner.judge_backlog(planner.follow_last(), starting):
            return options
    others = {name: value for name, value in options.items() if name != MOST_ROWS}
    return others if larger is None else {**others, MOST_ROWS: larger}


def begins_with_topic(options: Mapping[str, Any]) -> bool:
    """Return whether a new query begins at the start of its topics.

    >>> begins_with_topic({"startingOffsets": "Earliest"}), begins_with_topic({"startingtime": 1})
    (True, False)
    """
    starts = [v for name, v in options.items() if name.lower().startswith("starting")]
    return all(str(start).lower() == "earliest" for start in starts)


def _skip_partial(
    spark: SparkSession, query: MarksQuery, secrets: tuple[str | None, Mapping[str, Any]]
) -> tuple[dict[str, WholeFrom | None], dict[str, str]]:
    with closing(_create_planner(spark, 'first_windows="skip"', query, secrets)) as planner:
        by_topic, begins = planner.wait_for_whole()
    whole = combine_whole(by_topic.values())
    if whole.time is None:
        raise Rejected(f'first_windows="skip" is not possible: {whole.sentence}')
    return by_topic, {STARTING_OFFSETS: json.dumps(begins)} if begins else {}


def _create_planner(
    spark: SparkSession,
    asked: str,
    query: MarksQuery,
    secrets: tuple[str | None, Mapping[str, Any]],
) -> TopicPlanner:
    if _is_remote(spark):
        raise Rejected(f"{asked} needs the checkpoint, which only Connect's server has: omit it")
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
    if not offsets.startswith("{"):
        return {stream: {} for stream in topics} if offsets.lower() == "earliest" else {}
    named: Mapping[str, Mapping[str, int]] = json.loads(offsets)
    ends = {-2: 0, -1: MAX_INT64}
    return {
        stream: {int(segment): ends.get(at, at) for segment, at in named.get(topic, {}).items()}
        for stream, topic in topics.items()
    }


def _read_events(
    spark: SparkSession,
    records: KafkaRecords,
    streams: Mapping[str, str],
    options: Mapping[str, Any],
    asked: tuple[str, str],
) -> DataFrame:
    name, event_time = asked
    reader = set_reader_name(spark, spark.readStream, name).format("kafka")
    chosen = {STARTING_OFFSETS: "earliest", **options, "subscribe": ",".join(streams.values())}
    events = records.parsed(reader.options(**chosen).load())
    check_events(events, event_time)
    return require_event_time(events, event_time)


def _require_option(name: str, value: str | None, marks: Marks) -> str:
    if not value:
        raise Rejected(f'marks="{marks}" needs {name}')
    return value


def _map_streams(
    topic: str | Sequence[str], stream: str | Mapping[str, str] | None
) -> dict[str, str]:
    topics = [topic] if isinstance(topic, str) else list(topic)
    for each in topics:
        validate_name("topic", each)
    if not topics or len(set(topics)) < len(topics):
        raise Rejected(f"topic must name at least one topic, each only once, not {topics}")
    if isinstance(stream, str):
        stream = dict.fromkeys(topics, stream)
    names = {each: validate_name("stream", (stream or {}).get(each, each)) for each in topics}
    unknown = sorted((stream or {}).keys() - names.keys())
    if unknown:
        raise Rejected(f"stream maps {unknown}, and the topics are {topics}")
    shared = [name for name, count in Counter(names.values()).items() if count > 1]
    if shared:
        raise Rejected(
            f"stream {shared[0]!r} belongs to several topics, and each topic needs a separate "
            "stream: map each topic to its stream, stream={topic: stream, …}"
        )
    return {name: each for each, name in names.items()}


def _choose_position_of(topic: str, *, several: bool) -> PositionOf:
    return KafkaTopic(topic).among_others if several else KafkaTopic(topic)


def _find_ahead_limit(spark: SparkSession, options: Mapping[str, Any]) -> AheadLimit | None:
    name, _, _ = AheadLimit.AT_ONCE.partition("=")
    if read_setting(spark, name, "true").lower() == "false":
        return AheadLimit.AT_ONCE
    return next((limit for limit in AheadLimit if limit in options), None)


def _is_remote(spark: object) -> bool:
    return not isinstance(spark, SparkSession)


def _find_ids(topics: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str | None]:
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    return {stream: Topic(config, topic).look().id for stream, topic in topics.items()}


def _find_ids_if_known(
    spark: SparkSession,
    records: KafkaRecords,
    options: Mapping[str, Any],
    topics: Mapping[str, str],
) -> dict[str, str | None]:
    try:
        if records.client is None and _is_remote(spark):
            raise Rejected("with Spark Connect this process needs client= to connect to the broker")
        return _find_ids(topics, build_client_config(options, records.client))
    except (ImportError, NotedTimeError) as error:
        log.warning("cannot check whether marks belong to another topic: %s", error)
        return {}


def _find_streams(
    spark: SparkSession, streams: Collection[str], domain: str | None, noted: Noted
) -> dict[str, StreamReply | None]:
    if not noted.url or _is_remote(spark):
        return dict.fromkeys(streams)
    with closing(Transport(noted.url, token=noted.token)) as transport:
        return {stream: check_known(transport, stream, domain) for stream in streams}


def _find_logs(
    known: Mapping[str, StreamReply | None], ids: Mapping[str, str | None]
) -> dict[str, frozenset[str]]:
    logs_by_stream = {}
    for stream, read in known.items():
        logs, topic_id = read.logs if read else (), ids.get(stream)
        AnotherLog.check(stream, logs, topic_id)
        logs_by_stream[stream] = frozenset((*logs, *([topic_id] if topic_id else ())))
    return logs_by_stream
