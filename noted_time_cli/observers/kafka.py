"""`noted-time observe kafka`: note time for a topic whose producers do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import writer_client
from noted_time.observing import IN_MS, TimeForm
from noted_time.values import Unreachable
from noted_time_cli.observers.noting import (
    IDLE_MS,
    MAX_LAG_MS,
    Delay,
    Idle,
    Looks,
    MaxLag,
    Noter,
    Noting,
    NotingIngestion,
    Skew,
)
from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    SchemaOptions,
    StreamOfTopic,
    TopicArgument,
    build_kafka_config,
)
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import WrittenTimes, duration, option
from noted_time_cli.terminal.output import say

if TYPE_CHECKING:
    from writer_client.kafka.event_times import TimeOf

app = typer.Typer(
    name="kafka",
    no_args_is_help=True,
    help="""Watch a Kafka topic and note what can be concluded from it.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown topic or
    stream, missing right, a topic that was recreated). The observer stays a member of the stream:
    time waits for it until its timeout.

    Try it:  noted-time observe kafka timestamp 127.0.0.1:9092 flights --delay 5m""",
    short_help="Watch a Kafka topic: when records came in, or the times that they have.",
)


Look = Callable[[Mapping[str, Any], str, writer_client.WriterClient], Looks]
"""Returns what looks at a topic: by the configuration of a client, the topic, and who notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic, and who observes it."""

    bootstrap: Bootstrap
    topic: TopicArgument
    stream: StreamOfTopic = None
    config: Config = None

    def observe(self, noting: Noting, look: Look, noter: Noter) -> None:
        """Note what is seen of the topic."""
        config = build_kafka_config(self.bootstrap, self.config)
        from noted_time.kafka import Topic as KafkaTopic

        try:
            KafkaTopic(config, self.topic).look()
        except Unreachable as error:  # said first: it may be the wrong one
            say(f"noted-time: {error}; trying again")
        noting.observe(
            self.stream or self.topic, lambda client: look(config, self.topic, client), noter
        )


StartOption = Annotated[
    Literal["earliest", "latest"], typer.Option("--from", help="Where to begin to read.")
]
AHEAD_MS = 300_000
AheadOption = Annotated[
    int | None,
    duration(
        "Pass over records whose time is further ahead of this clock.", "--ahead", default="5m"
    ),
]


@group_command(app)
def ingestion(
    of: ObservedTopic, noting: NotingIngestion, *, skew: Skew = 0, max_lag: MaxLag = MAX_LAG_MS
) -> None:
    """Note when records became visible, by this machine's clock.

    Whatever was visible at a moment lies below the ends read after it. An open transaction holds
    the end of its partition.

    Try it:  noted-time observe kafka ingestion 127.0.0.1:9092 flights
    """
    of.observe(
        noting,
        lambda config, topic, _: writer_client.KafkaEnds(config, topic),
        noting.make_clock_noter(skew, max_lag),
    )


@group_command(app)
def timestamp(
    of: ObservedTopic,
    noting: Noting,
    *,
    delay: Delay,
    idle: Idle = IDLE_MS,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            help="Observe this partition only; may be given several times.", show_default=False
        ),
    ] = None,
) -> None:
    """Note the newest timestamp of each partition less the delay; the slowest partition counts.

    No record is read. If they are written in transactions that may come in later than the delay,
    use `read-timestamp`: the markers of transactions have timestamps, too.

    Try it:  noted-time observe kafka timestamp 127.0.0.1:9092 flights --delay 5m
    """
    of.observe(
        noting,
        lambda config, topic, _: writer_client.KafkaTimes(
            config, topic, partitions=partition or None
        ),
        noting.make_times_noter(delay, idle),
    )


@group_command(app)
def read_timestamp(  # noqa: PLR0913 - one parameter for each flag
    of: ObservedTopic,
    noting: Noting,
    *,
    delay: Delay,
    idle: Idle = IDLE_MS,
    start: StartOption = "latest",
    ahead: AheadOption = AHEAD_MS,
) -> None:
    """Note the same as `timestamp`, read from the records: right for transactions, too.

    Try it:  noted-time observe kafka read-timestamp 127.0.0.1:9092 flights --delay 5m
    """
    from writer_client.kafka.event_times import get_timestamp

    look = _make_look(get_timestamp, start, ahead, lambda _: IN_MS)
    of.observe(noting, look, noting.make_times_noter(delay, idle))


@group_command(app)
def field(  # noqa: PLR0913 - one parameter for each flag
    of: ObservedTopic,
    noting: Noting,
    *,
    field: Annotated[
        str, option("FIELD", "The JSON field of the event time, or `module:function`.", "--field")
    ],
    delay: Delay,
    described: SchemaOptions,
    written: WrittenTimes,
    idle: Idle = IDLE_MS,
    start: StartOption = "latest",
    ahead: AheadOption = AHEAD_MS,
) -> None:
    """Note the newest time in the records of each partition less the delay; all are read.

    The time is a field of a JSON object, or a dotted path for one within another, also in arrays: a
    number, or ISO 8601. Or it is what a function of the confluent_kafka.Message returns. With
    --schema-registry the values are Avro, JSON Schema or Protobuf.

    Try it:  noted-time observe kafka field 127.0.0.1:9092 flights --field departure --delay 5m
    """
    look = _make_look(
        described.resolve_field(field),
        start,
        ahead,
        lambda client: noting.choose_form(client, written.form),
    )
    of.observe(noting, look, noting.make_times_noter(delay, idle))


@group_command(app)
def broker_time(
    of: ObservedTopic,
    noting: Noting,
    *,
    skew: Annotated[
        int, duration("How far the clocks of brokers may be apart.", "--skew", default="1s")
    ] = 1000,
    lag: Annotated[
        int | None,
        duration(
            "How old what cannot be seen may be. By default as replication allows: 50s.", "--lag"
        ),
    ] = None,
) -> None:
    """Note the brokers' stamps that readers have passed, of a topic with LogAppendTime.

    It is the newest stamp of each partition less the skew, or the clock less the lag where nothing
    is new and no transaction is open. No record is read, and no partition is ever idle.

    Try it:  noted-time observe kafka broker-time 127.0.0.1:9092 flights
    """
    of.observe(
        noting,
        lambda config, topic, client: writer_client.KafkaBrokerTimes(
            config, topic, skew_ms=skew, lag_ms=lag, client=client
        ),
        noting.make_times_noter(),
    )


@group_command(app)
def resolved(of: ObservedTopic, noting: Noting, *, ahead: AheadOption = AHEAD_MS) -> None:
    """Note what a changefeed of CockroachDB has resolved, exactly. All records are read.

    Try it:  noted-time observe kafka resolved 127.0.0.1:9092 accounts
    """
    of.observe(
        noting,
        lambda config, topic, client: writer_client.KafkaResolved(
            config, topic, known=lambda: client.position, ahead_ms=ahead
        ),
        noting.make_times_noter(),
    )


def _make_look(
    field: str | TimeOf,
    start: Literal["earliest", "latest"],
    ahead_ms: int | None,
    form: Callable[[writer_client.WriterClient], TimeForm],
) -> Look:
    """Return what makes a look that reads a field of the records, or their timestamps."""

    def look(config: Mapping[str, Any], topic: str, client: writer_client.WriterClient) -> Looks:
        return writer_client.KafkaFields(
            config,
            topic,
            field,
            start=start,
            known=lambda: client.position,
            ahead_ms=ahead_ms,
            client=client,
            form=form(client),
        )

    return look
