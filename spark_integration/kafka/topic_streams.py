"""The streams of Kafka topics, and the ids of their logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

from pyspark.sql import SparkSession

from noted_time import AnotherLog, Rejected
from noted_time.client.transport import Transport
from noted_time.values import validate_name
from reader_client.protocol.answers import StreamReply
from spark_integration.marks.arguments import Noted
from spark_integration.marks.feed import check_known


def is_remote(spark: object) -> bool:
    """Return whether the session is one of Spark Connect."""
    return not isinstance(spark, SparkSession)


def map_streams(
    topic: str | Sequence[str], stream: str | Mapping[str, str] | None
) -> dict[str, str]:
    """Return the topic of each stream, by default of the same name, or raise `Rejected`."""
    topics = [topic] if isinstance(topic, str) else list(topic)
    for topic_name in topics:
        validate_name("topic", topic_name)
    if not topics or len(set(topics)) < len(topics):
        raise Rejected(f"topic must name at least one topic, each only once, not {topics}")
    if isinstance(stream, str):
        stream_by_topic = dict.fromkeys(topics, stream)
    else:
        stream_by_topic = dict(stream or {})
    stream_names: list[str] = []
    for topic_name in topics:
        stream_names.append(validate_name("stream", stream_by_topic.get(topic_name, topic_name)))
    unknown = sorted(stream_by_topic.keys() - set(topics))
    if unknown:
        raise Rejected(f"stream maps {unknown}, and the topics are {topics}")
    for stream_name, count in Counter(stream_names).items():
        if count > 1:
            raise Rejected(
                f"stream {stream_name!r} belongs to several topics, and each topic needs a "
                "separate stream: map each topic to its stream, stream={topic: stream, …}"
            )
    return dict(zip(stream_names, topics, strict=True))


def find_ids(topics: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str | None]:
    """Return the id of each stream's topic as the broker says, `None` before Kafka 2.8."""
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    return {stream: Topic(config, topic).look().id for stream, topic in topics.items()}


def find_streams(
    spark: SparkSession, streams: Collection[str], domain: str | None, noted: Noted
) -> dict[str, StreamReply | None]:
    """Return the reply about each stream, `None` if this process cannot ask the controller."""
    if not noted.controller or is_remote(spark):
        return dict.fromkeys(streams)
    with closing(Transport(noted.controller, token=noted.token)) as transport:
        return {stream: check_known(transport, stream, domain) for stream in streams}


def find_logs(
    replies: Mapping[str, StreamReply | None], ids: Mapping[str, str | None]
) -> dict[str, frozenset[str]]:
    """Return the ids that each stream's topic may have, or raise `AnotherLog`."""
    logs_by_stream = {}
    for stream, reply in replies.items():
        logs = reply.logs if reply else ()
        topic_id = ids.get(stream)
        AnotherLog.check(stream, logs, topic_id)
        possible_logs = set(logs)
        if topic_id:
            possible_logs.add(topic_id)
        logs_by_stream[stream] = frozenset(possible_logs)
    return logs_by_stream
