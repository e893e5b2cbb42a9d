"""How a query reads Kafka topics with an exact watermark: Spark's own source, and our marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from noted_time.client.transport import Transport
from noted_time.values import checked_name
from spark_integration.jars import check_connector
from spark_integration.marks_feed import check_known
from spark_integration.marks_query import AT_ONCE, FromKafka, MarksQuery
from spark_integration.noted_watermark import check_events, check_time, events_under, marks_of
from spark_integration.options import OnSeal, check_one_of, check_promised
from spark_integration.positions import KafkaTopic
from spark_integration.topic_marks import MarksWanted, check_exact
from spark_integration.versions import require
from spark_integration.watermark import unmoved

if TYPE_CHECKING:
    from spark_integration.positions import PositionOf

Marks = Literal["ahead", "committed", "topic"]
Options = Mapping[str, str | int | bool]

LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""The options of Spark's Kafka source that leave rows to later micro-batches."""

CLIENT = "kafka."
"""How the names begin of options that are settings of Kafka's own client."""

TAKEN = ("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign")
"""The options that the call sets itself."""

SAME = ("security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm")
"""The settings that have the same name and values in Kafka's Java client and in librdkafka."""

KAFKA_TIME = "timestamp"
"""The column of Kafka's own timestamps, which are -1 ms in a record that has none."""


def read_noted_kafka(  # noqa: PLR0913 - what there is to ask for; all but two are named
    spark: SparkSession,
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    event_time: str,
    controller_url: str | None = None,
    checkpoint_location: str | None = None,
    parse: Callable[[DataFrame], DataFrame] | None = None,
    marks: Marks = "ahead",
    strict: bool = True,
    options: Options | None = None,
    client: Mapping[str, str] | None = None,
    stream: str | None = None,
    domain: str | None = None,
    token: str | None = None,
    dedup_retention_ms: int = 0,
    on_seal: OnSeal = "close",
) -> DataFrame:
    """Return the events of Kafka topics, with a watermark that the producers vouch for.

    Spark's own source reads `topic`, from the earliest offsets unless `options` has other
    `startingOffsets`. The stream is the one of the topic's name, or `stream`; partitions are
    segments. Of several topics each has its own stream, and the least lower is the watermark.
    `parse` makes events of the source's rows (`key`, `value`, `topic`, `partition`, `offset`,
    `timestamp`, …). `event_time` is the timestamp column that the marks refer to: of the parsed
    events, or ``"timestamp"`` if the producers note times that they give to Kafka. A record without
    one fails the query with its topic, partition and offset, if `parse` only selects and filters;
    `parse` may drop or repair such records.

    `checkpoint_location` is the `checkpointLocation` with which the query will be started. With
    ``marks="ahead"`` a mark comes in the micro-batch of the rows that it covers, as the planner
    asks the broker how far the topic goes. Each such mark is remembered in the offset log until its
    cut is read; otherwise the query fails before a row is judged by it. With
    ``marks="committed"`` a mark comes one micro-batch later, once the offset log shows that its
    cut is read. That is so as well with availableNow, with `maxOffsetsPerTrigger`,
    `minOffsetsPerTrigger` or `maxTriggerDelay` among `options`, and under
    ``spark.sql.streaming.statefulOperator.allowMultiple=false``.

    With ``marks="topic"`` Spark reads the marks as well, from the topic `TOPIC.noted` of a relay.
    It needs neither `checkpoint_location` nor `client`; at a `controller_url` stream and domain are
    looked for in the call. Nothing is checked while the query runs, so what would delay rows is
    refused here, and no restart may add it: see `docs/kafka.md`.

    `bootstrap` is ``host:port``, with commas between several. `options` are those of Spark's Kafka
    source; `failOnDataLoss` stays true. `client` has the settings with which confluent-kafka
    connects, where `options` has `kafka.` settings of Java that it does not understand, such as
    `sasl.jaas.config`. `strict`, `domain`, `token`, `dedup_retention_ms` and `on_seal` are as in
    `read_noted_log` and its `ReadRange`.

    Raises `InvalidName` for a topic or stream; `Rejected` for options that cannot be combined, an
    unknown topic, no right to describe it, an event time that is no timestamp, and a session
    without the Kafka connector; `Unreachable` if no broker answers; `UnknownStream`,
    `UnknownDomain`, `NotAllowed` and `UnexpectedAnswer` as the controller answers. (With Spark
    Connect the server looks for topic and stream, once the query starts.) The query fails with
    `Recreated` if a topic was, or lost records or partitions that were read; with `Rejected` if
    rows on which a mark rests are gone; and with `Unreachable` if they are in a partition that has
    no leader for half a minute. With ``marks="topic"`` Spark's own error says so if a record there
    is no mark of the stream.
    """
    check_one_of("marks", marks, Marks)
    check_promised(domain, event_time)
    require(f'read_noted_kafka(marks="{marks}")', spark.version)
    check_one_of("on_seal", on_seal, OnSeal)
    streams = _streams(topic, stream)
    chosen = checked_options(options, "read_noted_kafka")
    limit = _limit(spark, chosen)
    check_connector(spark)
    reader = spark.readStream.format("kafka").options(**{"startingOffsets": "earliest", **chosen})
    reader = reader.option("kafka.bootstrap.servers", bootstrap)
    records = reader.option("subscribe", ",".join(streams.values())).load()
    events = parse(records) if parse else records
    check_events(events, event_time)
    events = timed(events, event_time)
    if marks == "topic":
        check_exact(spark, streams, limit)
        connection = {name: value for name, value in chosen.items() if name.startswith(CLIENT)}
        asked = MarksWanted(
            streams,
            _domains(spark, streams, (domain, event_time), controller_url, token),
            {**connection, "kafka.bootstrap.servers": bootstrap},
            strict=strict,
            on_seal=on_seal,
        )
        return events_under(asked.read(spark), events, event_time, dedup_retention_ms)
    several = len(streams) > 1
    query = MarksQuery(
        {name: _position_of(each, several=several) for name, each in streams.items()},
        _given("controller_url", controller_url, marks),
        _given("checkpoint_location", checkpoint_location, marks),
        domain=domain,
        strict=strict,
        on_seal=on_seal,
        kafka=FromKafka(
            streams,
            ahead=marks == "ahead",
            limit=limit,
            committed=is_committed(chosen),
        ),
    )
    config = client_config(bootstrap, chosen, client)
    if isinstance(spark, SparkSession):
        _check_there(streams, config)
    _domains(spark, streams, (domain, event_time), controller_url, token)
    rows = marks_of(spark, query, token, config)
    return events_under([rows], events, event_time, dedup_retention_ms)


def _given(name: str, value: str | None, marks: Marks) -> str:
    if value is None:
        raise Rejected(f'marks="{marks}" needs {name}=')
    return value


def _streams(topic: str | Sequence[str], stream: str | None) -> dict[str, str]:
    """Return the topic of each stream."""
    topics = [topic] if isinstance(topic, str) else list(topic)
    for each in topics:
        checked_name("topic", each)
    if not topics or len(set(topics)) < len(topics):
        raise Rejected(f"topic must name at least one topic, each once, not {topics}")
    if stream is None:
        return {each: each for each in topics}
    if len(topics) > 1:
        raise Rejected(
            f"stream={stream!r} names one stream, and there are {len(topics)} topics: each has the "
            "stream of its own name; call read_noted_kafka once for each, and union the results"
        )
    return {checked_name("stream", stream): topics[0]}


def _position_of(topic: str, *, several: bool) -> PositionOf:
    return KafkaTopic(topic).among_others if several else KafkaTopic(topic)


def checked_options(options: Options | None, by: str, *taken: str) -> dict[str, Any]:
    """Return the options under the names that Spark documents: to Spark, case does not matter.

    The last of several spellings counts, as with Spark. Names of Kafka's settings, which begin with
    `kafka.`, are in lower case.

    >>> checked_options({"Kafka.Isolation.Level": "read_committed", "MINPARTITIONS": 4}, "f")
    {'kafka.isolation.level': 'read_committed', 'MINPARTITIONS': 4}

    Raises `Rejected` for those of `TAKEN`, and the `taken`, which the function `by` sets.
    """
    own = (*TAKEN, *taken)
    known = {each.lower(): each for each in (*LIMITS, *own, "startingOffsets", "failOnDataLoss")}
    chosen: dict[str, Any] = {}
    for name, value in (options or {}).items():
        lower = name.lower()
        chosen[known.get(lower, lower if lower.startswith(CLIENT) else name)] = value
    for name in own:
        if name in chosen:
            raise Rejected(f"option {name} is set by {by}, which has arguments for it")
    if str(chosen.get("failOnDataLoss", True)).lower() != "true":
        raise Rejected("failOnDataLoss=false would skip rows that marks vouch for, silently")
    return chosen


def is_committed(options: Mapping[str, Any]) -> bool:
    """Whether checked options have Spark read committed records only, as Kafka's client takes it.

    >>> is_committed({"kafka.isolation.level": " Read_Committed"}), is_committed({})
    (True, False)
    """
    return str(options.get("kafka.isolation.level")).strip().lower() == "read_committed"


def _limit(spark: SparkSession, options: Mapping[str, Any]) -> str:
    """Return the option that prevents marks ahead of what is read, `""` if there is none."""
    name, _, _ = AT_ONCE.partition("=")
    if str(spark.conf.get(name, "true")).lower() == "false":
        return AT_ONCE
    return next((limit for limit in LIMITS if limit in options), "")


def client_config(
    bootstrap: str, options: Mapping[str, Any], client: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the configuration with which confluent-kafka connects as Spark does.

    >>> client_config("b:9092", {"kafka.security.protocol": "SSL"}, {"ssl.ca.location": "/ca.pem"})
    {'bootstrap.servers': 'b:9092', 'security.protocol': 'SSL', 'ssl.ca.location': '/ca.pem'}

    Raises `Rejected` for settings of Java alone, without a `client`.

    >>> client_config("b:9092", {"kafka.sasl.jaas.config": "…"}, None)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: option kafka.sasl.jaas.config is for Java: ...
    """
    settings = {name.removeprefix(CLIENT): value for name, value in options.items()}
    for name in settings:
        if client is None and name.startswith(("sasl.", "ssl.")) and name not in SAME:
            raise Rejected(
                f"option kafka.{name} is for Java: the planner asks the broker by librdkafka, "
                "whose settings for the same connection go into client=, such as "
                'client={"sasl.username": …, "sasl.password": …, "ssl.ca.location": …}'
            )
    same = {name: str(settings[name]) for name in SAME if name in settings}
    return {"bootstrap.servers": bootstrap, **same, **(client or {})}


def _check_there(topics: Mapping[str, str], config: Mapping[str, str]) -> None:
    """Raise if the broker has no such topic."""
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    for topic in topics.values():
        Topic(config, topic).look()


def _domains(
    spark: SparkSession,
    streams: Iterable[str],
    asked: tuple[str | None, str],
    controller_url: str | None,
    token: str | None,
) -> dict[str, str | None]:
    """Return the domain of each stream, `None` if that is not known; asked for by column too.

    Raises if the controller knows no such stream or domain; with Spark Connect it is not asked.
    """
    domain = asked[0]
    if controller_url is None or not isinstance(spark, SparkSession):
        return dict.fromkeys(streams, domain)
    with closing(Transport(controller_url, token=token)) as transport:
        known = {stream: check_known(transport, stream, *asked) for stream in streams}
        return {stream: found.domain if found else domain for stream, found in known.items()}


def timed(events: DataFrame, event_time: str) -> DataFrame:
    """Return the events, of which one without an event time fails the query.

    The message has the record's topic, partition and offset, also if `parse` left these columns
    out: Spark finds them below a projection. Raises `Rejected` if the column is no timestamp.
    """
    check_time(events, event_time)
    column = F.col(f"`{event_time}`")
    missing = column.isNull()
    if event_time == KAFKA_TIME:
        missing = missing | (column == F.timestamp_millis(F.lit(-1)))
    where = F.format_string(" of topic %s, partition %s, offset %s", "topic", "partition", "offset")
    try:
        return _failing(events, missing, event_time, where)
    except AnalysisException:
        return _failing(events, missing, event_time, F.lit(""))


def _failing(events: DataFrame, missing: Column, event_time: str, where: Column) -> DataFrame:
    message = F.concat(
        F.lit("a record"),
        where,
        F.lit(
            f" has no event time in column {event_time}: no mark vouches for it; have parse= drop "
            "or repair such records"
        ),
    )
    fails = F.raise_error(message).cast("boolean")
    checked = events.where(unmoved(F.when(missing, fails).otherwise(value=True)))
    checked.schema  # noqa: B018 - with Spark Connect it is analyzed only when it is asked for
    return checked
