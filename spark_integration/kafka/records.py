"""Options of Spark's Kafka source, and the event times of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration.kafka.client import CLIENT_PREFIX, Client
from spark_integration.marks.arguments import EVENT_TIMES_REMEDY
from spark_integration.marks.reader_options import choose_options
from spark_integration.marks.watermark import check_time, pin_filter
from spark_integration.marks_source.query import AheadLimit
from spark_integration.marks_source.read import check_events
from spark_integration.session.settings import read_setting, set_reader_name

Options = Mapping[str, str | int | bool]

STARTING_OFFSETS = "startingOffsets"
MOST_ROWS = AheadLimit.MOST_ROWS.value

FILE_LOG_OPTIONS = {
    "ReadRange": "read_complete_kafka reads a range of event times",
    "Columns": "parse= of the records selects columns, and read_late_kafka reads late rows",
    "Batches": f"{MOST_ROWS}, among the options of the records, limits a micro-batch",
}
"""The remedy for each option of file logs, by the name of its class."""

LAG_REMEDY = (
    f"{EVENT_TIMES_REMEDY}; or pass Ingestion(max_event_time_lag_ms=…), if no record is older than "
    "that when it comes in"
)

OWN_OPTIONS = ("kafka.bootstrap.servers", "subscribe")

PATTERN_OPTIONS = ("subscribePattern", "assign")

KAFKA_TIME = "timestamp"  # Kafka's own, -1 ms if missing


@dataclass(frozen=True, slots=True)
class KafkaRecords:
    """Kafka topics, and how Spark's own source reads their records.

    - `bootstrap` is ``host:port``, or several with commas.
    - `parse` turns the rows of Spark's source (`key`, `value`, `timestamp`, …) into events.
    - `options` are options of Spark's source. `failOnDataLoss` must stay true.
    - `client` has settings for confluent-kafka, if `options` has `kafka.` settings that only Java
      knows. Logins by `sasl.jaas.config` (PLAIN, SCRAM) and PEM stores need none. `client` may also
      be the name of a function that returns settings, ``"module:function"``, such as an
      `oauth_cb`, which is called where Spark plans.
    """

    topic: str | Sequence[str]
    bootstrap: str
    parse: Callable[[DataFrame], DataFrame] | None = field(default=None, kw_only=True)
    options: Options = field(default_factory=dict, kw_only=True)
    client: Client | None = field(default=None, repr=False, kw_only=True)

    def parsed(self, rows: DataFrame) -> DataFrame:
        """Return the events of the source's rows."""
        if self.parse is None:
            return rows
        return self.parse(rows)


def normalize_options(records: KafkaRecords, reader: str, *taken_names: str) -> dict[str, Any]:
    """Return the options as Spark documents their names, as case does not matter to Spark.

    >>> options = {"Kafka.Isolation.Level": "read_committed"}
    >>> normalize_options(KafkaRecords("flights", "b:9092", options=options), "f")
    {'kafka.isolation.level': 'read_committed', 'kafka.bootstrap.servers': 'b:9092'}

    Raises `Rejected` for `OWN_OPTIONS` and `taken_names`, which the function `reader` sets.
    """
    own_names = (*OWN_OPTIONS, *taken_names)
    documented_names = [limit.value for limit in AheadLimit]
    documented_names += [*own_names, *PATTERN_OPTIONS, STARTING_OFFSETS, "failOnDataLoss"]
    name_by_lower = {name.lower(): name for name in documented_names}
    normalized_options: dict[str, Any] = {}
    for name, value in records.options.items():
        lower = name.lower()
        if lower in name_by_lower:
            normalized_options[name_by_lower[lower]] = value
        elif lower.startswith(CLIENT_PREFIX):
            normalized_options[lower] = value
        else:
            normalized_options[name] = value
    for name in PATTERN_OPTIONS:
        if name in normalized_options:
            raise Rejected(f"option {name}: name the topics in {reader}, because each has a stream")
    for name in own_names:
        if name in normalized_options:
            raise Rejected(f"option {name} is set by {reader}, which has arguments for it")
    if str(normalized_options.get("failOnDataLoss", True)).lower() != "true":
        raise Rejected("failOnDataLoss=false would silently skip rows that marks vouch for")
    return {**normalized_options, "kafka.bootstrap.servers": records.bootstrap}


def choose_topic_options(options: Sequence[object], fields: Mapping[type, str]) -> dict[str, Any]:
    """Return the options by their fields, or raise `Rejected`, also for options of file logs."""
    for option in options:
        option_name = type(option).__name__
        if remedy := FILE_LOG_OPTIONS.get(option_name):
            raise Rejected(f"{option_name} is an option of file logs: {remedy}")
    return choose_options(options, fields)


def find_ahead_limit(spark: SparkSession, options: Mapping[str, Any]) -> AheadLimit | None:
    """Return what prevents marks ahead of their rows, or `None`."""
    setting, _, _ = AheadLimit.AT_ONCE.partition("=")
    if read_setting(spark, setting, "true").lower() == "false":
        return AheadLimit.AT_ONCE
    for limit in AheadLimit:
        if limit in options:
            return limit
    return None


def read_events(
    spark: SparkSession,
    source_name: str,
    records: KafkaRecords,
    options: Mapping[str, Any],
    event_time: str,
) -> DataFrame:
    """Return the events of the topics, by default from the earliest offsets."""
    topics = [records.topic] if isinstance(records.topic, str) else records.topic
    reader = set_reader_name(spark, spark.readStream, source_name).format("kafka")
    source_options = {STARTING_OFFSETS: "earliest", **options, "subscribe": ",".join(topics)}
    events = records.parsed(reader.options(**source_options).load())
    check_events(events, event_time)
    return require_event_time(events, event_time)


def is_committed(options: Mapping[str, Any]) -> bool:
    """Return whether Spark reads only committed records.

    >>> is_committed({"kafka.isolation.level": " Read_Committed"}), is_committed({})
    (True, False)
    """
    return str(options.get("kafka.isolation.level")).strip().lower() == "read_committed"


def require_event_time(events: DataFrame, event_time: str) -> DataFrame:
    """Return events that fail the query, with topic, partition and offset, without an event time.

    Raises `Rejected` if the column is not a timestamp.
    """
    check_time(events, event_time)
    column = F.col(f"`{event_time}`")
    has_no_time = column.isNull()
    if event_time == KAFKA_TIME:
        has_no_time = has_no_time | (column == F.timestamp_millis(F.lit(-1)))
    place = F.format_string(" of topic %s, partition %s, offset %s", "topic", "partition", "offset")
    try:
        return _fail_without_time(events, has_no_time, event_time, place)
    except AnalysisException:
        return _fail_without_time(events, has_no_time, event_time, F.lit(""))


def _fail_without_time(
    events: DataFrame, has_no_time: Column, event_time: str, place: Column
) -> DataFrame:
    message = F.concat(
        F.lit("a record"),
        place,
        F.lit(
            f" has no event time in column {event_time}: no mark vouches for it; have parse= drop "
            "or repair such records"
        ),
    )
    failure = F.raise_error(message).cast("boolean")
    checked_events = events.where(pin_filter(F.when(has_no_time, failure).otherwise(value=True)))
    checked_events.schema  # noqa: B018 - Spark Connect analyzes a plan only for its schema
    return checked_events
