"""Records of Kafka topics: the options of Spark's own source, and the event times of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration.kafka.client import CLIENT_PREFIX, Client
from spark_integration.marks.watermark import check_time, pin_filter
from spark_integration.marks_source.query import AheadLimit

Options = Mapping[str, str | int | bool]

OWN_OPTIONS = ("kafka.bootstrap.servers", "subscribe")
"""The options that the call sets."""

PATTERN_OPTIONS = ("subscribePattern", "assign")
"""The options that select topics without their names."""

KAFKA_TIME = "timestamp"
"""The column of Kafka's own timestamps. A record without a timestamp has -1 ms."""


@dataclass(frozen=True, slots=True)
class KafkaRecords:
    """Kafka topics, and how Spark's own source reads their records.

    - `bootstrap` is ``host:port``, several separated by commas.
    - `parse` turns the rows of the source (`key`, `value`, `topic`, `partition`, `offset`,
      `timestamp`, …) into events.
    - `options` are options of Spark's Kafka source. `failOnDataLoss` must stay true.
    - `client` has the settings with which confluent-kafka connects. It is needed if `options` has
      `kafka.` settings that only Java knows. A `sasl.jaas.config` of PLAIN or SCRAM and PEM stores
      are translated. `client` may also be the name of a function without arguments,
      ``"module:function"``, that returns the settings, such as an `oauth_cb`. It is called where
      Spark plans, and its module may be in the current directory.
    """

    topic: str | Sequence[str]
    bootstrap: str
    parse: Callable[[DataFrame], DataFrame] | None = field(default=None, kw_only=True)
    options: Options = field(default_factory=dict, kw_only=True)
    client: Client | None = field(default=None, repr=False, kw_only=True)

    def parsed(self, rows: DataFrame) -> DataFrame:
        """Return the events of the source's rows."""
        return self.parse(rows) if self.parse else rows


def normalize_options(options: Options, by: str, *taken: str) -> dict[str, Any]:
    """Return the options under the names that Spark documents. Spark ignores case.

    If an option has several spellings, the last one counts, as for Spark. Kafka's settings, which
    begin with `kafka.`, are in lower case.

    >>> normalize_options({"Kafka.Isolation.Level": "read_committed", "MINPARTITIONS": 4}, "f")
    {'kafka.isolation.level': 'read_committed', 'MINPARTITIONS': 4}

    Raises `Rejected` for `OWN_OPTIONS` and the `taken` options, which the function `by` sets.
    """
    own = (*OWN_OPTIONS, *taken)
    named = (*map(str, AheadLimit), *own, *PATTERN_OPTIONS, "startingOffsets", "failOnDataLoss")
    known = {each.lower(): each for each in named}
    chosen: dict[str, Any] = {}
    for name, value in options.items():
        lower = name.lower()
        chosen[known.get(lower, lower if lower.startswith(CLIENT_PREFIX) else name)] = value
    for name in PATTERN_OPTIONS:
        if name in chosen:
            raise Rejected(f"option {name}: name the topics in {by}, because each has a stream")
    for name in own:
        if name in chosen:
            raise Rejected(f"option {name} is set by {by}, which has arguments for it")
    if str(chosen.get("failOnDataLoss", True)).lower() != "true":
        raise Rejected("failOnDataLoss=false would silently skip rows that marks vouch for")
    return chosen


def is_committed(options: Mapping[str, Any]) -> bool:
    """Return whether normalized options make Spark read only committed records.

    >>> is_committed({"kafka.isolation.level": " Read_Committed"}), is_committed({})
    (True, False)
    """
    return str(options.get("kafka.isolation.level")).strip().lower() == "read_committed"


def require_event_time(events: DataFrame, event_time: str) -> DataFrame:
    """Return the events, as a query that fails at an event without an event time.

    The error shows the record's topic, partition and offset, even if `parse` left these columns
    out, because Spark finds them below a projection. Raises `Rejected` if the column is not a
    timestamp.
    """
    check_time(events, event_time)
    column = F.col(f"`{event_time}`")
    missing = column.isNull()
    if event_time == KAFKA_TIME:
        missing = missing | (column == F.timestamp_millis(F.lit(-1)))
    where = F.format_string(" of topic %s, partition %s, offset %s", "topic", "partition", "offset")
    try:
        return _fail_without_time(events, missing, event_time, where)
    except AnalysisException:
        return _fail_without_time(events, missing, event_time, F.lit(""))


def _fail_without_time(
    events: DataFrame, missing: Column, event_time: str, where: Column
) -> DataFrame:
    message = F.concat(
        F.lit("a record"),
        where,
        F.lit(
            f" has no event time in column {event_time}: no mark vouches for it; have parse= drop "
            "or repair such records"
        ),
    )
    fails = F.raise_error(message).cast("boolean")
    checked = events.where(pin_filter(F.when(missing, fails).otherwise(value=True)))
    checked.schema  # noqa: B018 - Spark Connect analyzes the plan only when its schema is read
    return checked
