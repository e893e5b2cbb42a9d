"""Reads Kafka topics and the marks that a relay writes, both with Spark's own source."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from noted_time import NotedTimeError, Rejected
from noted_time.values import choose_domain
from reader_client.protocol.answers import StreamReply
from spark_integration.kafka.client import CLIENT_PREFIX, build_client_config
from spark_integration.kafka.records import (
    LAG_REMEDY,
    KafkaRecords,
    choose_topic_options,
    find_ahead_limit,
    normalize_options,
    read_events,
)
from spark_integration.kafka.topic_marks import WantedMarks, check_exact
from spark_integration.kafka.topic_streams import (
    find_ids,
    find_logs,
    find_streams,
    is_remote,
    map_streams,
)
from spark_integration.marks.arguments import SAFE_POLICY, Noted, WatermarkPolicy
from spark_integration.marks.reader_options import CatchUp, Ingestion, find_lag_ms
from spark_integration.marks_source.read import unite_with_marks
from spark_integration.session.connector import check_connector
from spark_integration.session.settings import EVENTS_SUFFIX, build_source_name
from spark_integration.session.versions import require

log = logging.getLogger("noted_time.spark")


def read_relayed_kafka(  # noqa: PLR0913 - all but three are given by keyword
    spark: SparkSession,
    records: KafkaRecords,
    noted: Noted | None = None,
    *options: Ingestion,
    event_time: str,
    domain: str | None = None,
    policy: WatermarkPolicy = SAFE_POLICY,
) -> DataFrame:
    """Return the events of one or two Kafka topics, with marks from a topic of a relay.

    Spark's own source reads the `records` and the marks, from the topic `TOPIC.noted`. So the plan
    has no Python, and Spark 3.5 or newer suffices. A mark comes in the micro-batch of its rows. See
    `docs/guides/kafka-marks.md`.

    The arguments are as in `read_noted_kafka`. A controller in `noted` is optional: with its URL,
    the call checks stream and domain. Options that delay rows are refused, and must not be added at
    a restart, because nothing is checked later. `options` are an `Ingestion` at most.

    Raises `AnotherLog` if the stream belongs to another topic. Raises `InvalidName`,
    `UnknownStream`, `UnknownDomain`, `NotAllowed` and `UnexpectedAnswer` for the stream. Raises
    `Rejected` for options that cannot be combined, a topic without marks, and a session without the
    Kafka connector. The query fails with Spark's error if a record is not a mark of the stream.
    """
    _check_policy(policy)
    lag_ms = _find_lag_ms(options, domain)
    require("read_relayed_kafka", spark.version)
    noted = noted or Noted()
    streams = map_streams(records.topic, noted.stream)
    source_options = normalize_options(records, "read_relayed_kafka")
    ahead_limit = find_ahead_limit(spark, source_options)
    check_connector(spark)
    source_name = build_source_name("kafka", streams, domain) + EVENTS_SUFFIX
    events = read_events(spark, source_name, records, source_options, event_time)
    check_exact(spark, streams, ahead_limit)
    replies = find_streams(spark, streams, domain, noted)
    ids = _find_ids_if_known(spark, records, source_options, streams)
    connection: dict[str, Any] = {}
    for name, value in source_options.items():
        if name.startswith(CLIENT_PREFIX):
            connection[name] = value
    wanted_marks = WantedMarks(
        topics=streams,
        domains={stream: domain or _choose_domain(reply) for stream, reply in replies.items()},
        logs=find_logs(replies, ids),
        connection=connection,
        policy=policy,
        lag_ms=lag_ms,
    )
    return unite_with_marks(wanted_marks.read(spark), events, event_time, policy)


def _check_policy(policy: WatermarkPolicy) -> None:
    policy.check_partial("read_relayed_kafka")
    if policy.batch_after_mark:
        raise Rejected(
            "with read_relayed_kafka Spark plans the micro-batches, so batch_after_mark has no "
            "effect: leave it out, and the last claim comes with the next mark or record; or use "
            "read_noted_kafka"
        )


def _find_lag_ms(options: Sequence[object], domain: str | None) -> int:
    if any(isinstance(option, CatchUp) for option in options):
        raise Rejected(
            "read_relayed_kafka does not compare the query with its stream, so CatchUp has no "
            "effect: use read_noted_kafka"
        )
    chosen_options = choose_topic_options(options, {Ingestion: "ingestion"})
    return find_lag_ms(domain, chosen_options.get("ingestion"), LAG_REMEDY)


def _choose_domain(reply: StreamReply | None) -> str | None:
    if reply is None:
        return None
    return choose_domain(reply.domains)


def _find_ids_if_known(
    spark: SparkSession,
    records: KafkaRecords,
    options: Mapping[str, Any],
    topics: Mapping[str, str],
) -> dict[str, str | None]:
    """Return the id of each stream's topic, or none if this process cannot ask the broker."""
    try:
        if records.client is None and is_remote(spark):
            raise Rejected("with Spark Connect this process needs client= to connect to the broker")
        return find_ids(topics, build_client_config(options, records.client))
    except (ImportError, NotedTimeError) as error:
        log.warning("cannot check whether marks belong to another topic: %s", error)
        return {}
