"""Reads marks from a Kafka topic, with Spark's own source.

A relay writes a mark once all rows below its cut are readable. Spark reads the end of that topic
first, so these rows are in the mark's micro-batch. Cuts are not checked later, so options that
delay rows are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time.installation import name_program
from noted_time.kafka.noted_topic import name_noted_topic
from noted_time.values import Rejected, StreamSettings
from spark_integration.marks.watermark import FIRST_MS, LAST_MS, MULTIPLE_POLICY, pin_filter
from spark_integration.session.settings import build_source_name, read_setting, set_reader_name

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from spark_integration.marks.arguments import WatermarkPolicy
    from spark_integration.marks_source.query import AheadLimit

MARK_SCHEMA = "stream STRING, domain STRING, topic_id STRING, lower BIGINT, final BOOLEAN"

MAX_TOPICS = 2  # Spark keeps the order of only four sources

UNNAMED_DOMAIN = "is of domain %s, and the call names no domain="
MIRRORED_TOPIC = "is of a topic with the id %s, and this one has %s"

FOREIGN_RECORD = (
    "the record at offset %s of Kafka topic '%s' %s; expected are marks of stream '%s' as "
    "`noted-time relay kafka` writes them: correct stream= or domain=; or delete this topic, "
    "restart the relay, and start the query with a new checkpoint"
)
FAST_RETRIES = {"fetchOffset.retryIntervalMs": 100}
DEPRECATED_FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


@dataclass(frozen=True, slots=True)
class WantedMarks:
    """The marks that a query needs.

    - `topics`: the events' topic of each stream
    - `logs`: the ids that each topic may have, empty if unknown
    - `lag_ms`: how far the watermark is below the marks
    """

    topics: Mapping[str, str]
    domains: Mapping[str, str | None]
    logs: Mapping[str, Collection[str]]
    connection: Mapping[str, Any]
    policy: WatermarkPolicy
    lag_ms: int = 0

    def read(self, spark: SparkSession) -> list[DataFrame]:
        """Return the marks of each stream in the column `time`, for a watermark each.

        The commit log keeps only the least watermark (SPARK-50046). So each stream restates the
        other's last lower, or a quiet stream would hold it back after a restart.
        """
        bootstrap = self.connection["kafka.bootstrap.servers"]
        topics = ",".join(name_noted_topic(topic) for topic in self.topics.values())
        reader = spark.readStream.format("kafka").options(**self.connection, subscribe=topics)
        reader = reader.option("startingOffsets", "earliest")
        has_several_topics = len(self.topics) > 1
        frames = []
        for stream, topic in self.topics.items():
            snapshot = spark.read.format("kafka").options(**self.connection, **FAST_RETRIES)
            events = snapshot.option("subscribe", topic).load()
            _collect_rows(events.limit(1), topic, "create it, or correct its name")
            noted_topic = name_noted_topic(topic)
            marks = self.select_lowers(stream, snapshot.option("subscribe", noted_topic).load())
            if has_several_topics:
                marks = marks.agg(F.max("lower").alias("lower"))
            else:
                marks = marks.limit(1)
            relay_remedy = (
                f"run `{name_program()} relay kafka {bootstrap} {topic}`, which writes the marks"
            )
            last_lower = None
            for row in _collect_rows(marks, noted_topic, relay_remedy):  # one at most
                last_lower = row["lower"]
            is_domain_named = last_lower is not None or self.domains[stream] is not None
            source_name = build_source_name("kafka", [stream], self.domains[stream])
            records = set_reader_name(spark, reader, source_name).load()
            marks = self.select_lowers(stream, records, last_lower, named=is_domain_named)
            frames.append(marks.select(F.timestamp_millis("lower").alias("time")))
        return frames

    def select_lowers(
        self, stream: str, records: DataFrame, last_lower: int | None = None, *, named: bool = True
    ) -> DataFrame:
        """Return the watermarks of a stream in ms for records of noted topics, as `lower`.

        A record of another topic restates `last_lower`. Another domain's mark fails the query,
        unless the domain was `named`.
        """
        value = F.col("value").cast("string").alias("value")
        key = F.col("key").cast("string").alias("key")
        mark = F.from_json(value, MARK_SCHEMA).alias("mark")
        rows = records.select("topic", "offset", value, key, mark).select("*", "mark.*")
        is_own = F.col("topic") == name_noted_topic(self.topics[stream])
        lower = F.col("lower")
        is_last = F.col("final") & F.lit(self.policy.on_seal == "close")
        domain = StreamSettings().domain_or_default(self.domains[stream])
        is_other = F.col("domain") != domain
        logs = self.logs.get(stream, ())
        log_column = F.col("topic_id")
        is_foreign = ~log_column.isin(*logs) if logs else F.lit(col=False)
        flaw = (
            F.when(F.col("value").isNull(), "has no value")
            .when(F.col("stream").isNull(), "is no mark")
            .when(F.col("stream") != stream, F.format_string("is of stream %s", "stream"))
            .when(F.expr("domain IS NULL OR NOT key <=> domain"), "has another key than its domain")
            .when(
                is_foreign,
                F.format_string(MIRRORED_TOPIC, log_column, F.lit(" or ".join(sorted(logs)))),
            )
            .when(lower.isNull(), "has no integer as its lower")
            .when(is_other & F.lit(not named), F.format_string(UNNAMED_DOMAIN, "domain"))
        )
        message = F.format_string(FOREIGN_RECORD, "offset", "topic", flaw, F.lit(stream))
        is_applied = (
            F.when(~is_own, last_lower is not None)
            .when(flaw.isNotNull(), F.raise_error(message).cast("boolean"))
            .when(is_other, value=False)
            .otherwise(is_last | ((lower > FIRST_MS + self.lag_ms) & (lower <= LAST_MS)))
        )
        watermark_ms = (
            F.when(~is_own, last_lower)
            .when(is_last, LAST_MS)
            .otherwise(lower - (self.lag_ms + int(self.policy.strict)))
        )
        return rows.where(pin_filter(is_applied)).select(watermark_ms.alias("lower"))


def check_exact(spark: SparkSession, topics: Mapping[str, str], limit: AheadLimit | None) -> None:
    if limit:
        raise Rejected(
            f"{limit} may leave rows to later micro-batches, and read_relayed_kafka does not check "
            "that rows below a mark are read: leave it out, or use read_noted_kafka"
        )
    if read_setting(spark, DEPRECATED_FETCHING, "false").lower() == "true":
        raise Rejected(
            f"under {DEPRECATED_FETCHING}=true Spark finds new partitions minutes later: unset it"
        )
    if len(topics) > MAX_TOPICS:
        raise Rejected(
            f"read_relayed_kafka reads {MAX_TOPICS} topics at most, not {len(topics)}: with more "
            "sources Spark may not read the marks first; use read_noted_kafka"
        )
    if len(topics) > 1 and read_setting(spark, MULTIPLE_POLICY, "min").lower() == "max":
        raise Rejected(
            f"{MULTIPLE_POLICY}=max would drop rows of all topics but the most advanced: unset it"
        )


def _collect_rows(frame: DataFrame, topic: str, remedy: str) -> list[Row]:
    try:
        return frame.collect()
    except (PySparkException, Py4JError) as error:
        if "UnknownTopicOrPartition" not in str(error):
            raise
        raise Rejected(f"there is no Kafka topic {topic!r}: {remedy}") from None
