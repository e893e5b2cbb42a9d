"""`noted-time observe kafka`: note time for a topic whose producers do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import typer

import writer_client
from noted_time.values import NotAllowed, Rejected, StreamSettings, Unreachable
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
    check_passed_over,
)
from noted_time_cli.terminal.brokers import Bootstrap, Config, StreamOfTopic, Topic, kafka_config
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import duration, option
from noted_time_cli.terminal.output import echo, say
from noted_time_cli.terminal.running import run_for

Known = Callable[[], Mapping[int, int]]

app = typer.Typer(
    name="kafka",
    no_args_is_help=True,
    help="""Watch a Kafka topic and note what can be concluded from it.

    With `--share`, several processes observe the topic: each partition has a writer of its own,
    WRITER-0 and so on, in the process that the consumer group assigns it to.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown topic or
    stream, missing right, a topic that was recreated). The observer stays a member of the stream:
    time waits for it until its timeout.

    Try it:  noted-time observe kafka timestamp 127.0.0.1:9092 flights --delay 5m""",
    short_help="Watch a Kafka topic: when records came in, or the times that they have.",
)


class NotedSoFar(NamedTuple):
    """What a look at a topic may ask: how far it was noted, and which partitions to read.

    `known` returns the position that the controller has of the writer, and `among` the partitions
    to read if that is not all of them. `client_of` returns the client that notes a partition.
    """

    known: Known = dict
    among: Known | None = None
    client_of: Callable[[int], writer_client.WriterClient | None] = lambda _: None


Look = Callable[[Mapping[str, Any], str, NotedSoFar], Looks]
"""Returns what looks at a topic, given the configuration of a client and the topic's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A topic, and who observes it."""

    bootstrap: Bootstrap
    topic: Topic
    stream: StreamOfTopic = None
    config: Config = None
    share: Annotated[
        bool,
        typer.Option("--share", help="Share the partitions with other processes: a writer each."),
    ] = False
    group: Annotated[
        str | None,
        option(
            "GROUP",
            "The consumer group that shares them. By default noted-time.STREAM.WRITER.",
            "--group",
        ),
    ] = None

    def observe(self, noting: Noting, look: Look, noter: Noter) -> None:
        """Note what is seen of all partitions, or of those that the group assigns."""
        config = kafka_config(self.bootstrap, self.config)
        from noted_time.kafka import Topic as KafkaTopic

        try:
            KafkaTopic(config, self.topic).look()
        except Unreachable as error:  # said first: it may be the wrong one
            say(f"noted-time: {error}; trying again")
        if self.share:
            self._share(noting, config, look, noter)
            return
        if self.group is not None:
            raise Rejected("--group requires --share")
        noting.observe(
            self.stream or self.topic,
            lambda client: look(
                config,
                self.topic,
                NotedSoFar(known=lambda: client.position, client_of=lambda _: client),
            ),
            noter,
        )

    def _share(self, noting: Noting, config: Mapping[str, Any], look: Look, noter: Noter) -> None:
        if noting.lasting == 0:
            raise Rejected(
                "--for 0s cannot be combined with --share: partitions are assigned only after "
                "joining the group"
            )
        writers = writer_client.PartitionWriters(
            noting.url,
            self.stream or self.topic,
            noting.writer,
            domain=noting.domain,
            timeout_ms=noting.timeout,
            token=noting.token,
        )
        observer = writer_client.SharedObserver(
            config,
            self.topic,
            writers,
            lambda known: look(
                config,
                self.topic,
                NotedSoFar(among=known, client_of=lambda each: observer.client_of(each)),  # noqa: PLW0108 - it is being made
            ),
            lambda client, view: noter(client, view, view.clock),
            group=self.group,
            poll_ms=noting.poll,
        )
        with closing(observer):
            with noting.beginning(writers.stream):
                partitions = observer.begin()
                with suppress(NotAllowed):  # a token that may note need not read
                    _advise(writers.stream, writers.command(partitions))
            echo(f"{writers.prefix}-… observes {writers.stream}, in group {observer.group}")
            run_for(observer, noting.lasting)
        check_passed_over(observer)


def _advise(stream: str, remedy: str | None) -> None:
    """Say how the stream comes to wait for the writers before any process has begun."""
    if remedy is not None:
        say(
            f"noted-time: {stream} does not expect the writers of all partitions. Run this so that "
            "a recreated stream waits for them from the start:"
        )
        say(f"  {remedy}")


Start = Annotated[
    Literal["earliest", "latest"], typer.Option("--from", help="Where to begin to read.")
]
AHEAD_MS = StreamSettings().max_time_ahead_ms
Ahead = Annotated[
    int | None,
    duration(
        "Pass over records whose time is further ahead of this clock.", "--ahead", default="1h"
    ),
]


@app.command()
@command
def ingestion(
    of: Observed, noting: NotingIngestion, *, skew: Skew = 0, max_lag: MaxLag = MAX_LAG_MS
) -> None:
    """Note when records became visible, by this machine's clock.

    Whatever was visible at a moment lies below the ends read after it. An open transaction holds
    the end of its partition.

    Try it:  noted-time observe kafka ingestion 127.0.0.1:9092 flights
    """
    of.observe(
        noting,
        lambda config, topic, _: writer_client.KafkaEnds(config, topic),
        noting.ingestion(skew, max_lag),
    )


@app.command()
@command
def timestamp(
    of: Observed,
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
    if of.share and partition:
        raise Rejected("--share cannot be combined with --partition")
    of.observe(
        noting,
        lambda config, topic, _: writer_client.KafkaTimes(
            config, topic, partitions=partition or None
        ),
        noting.event_time(delay, idle),
    )


@app.command()
@command
def read_timestamp(  # noqa: PLR0913 - one parameter for each flag
    of: Observed,
    noting: Noting,
    *,
    delay: Delay,
    idle: Idle = IDLE_MS,
    start: Start = "latest",
    ahead: Ahead = AHEAD_MS,
) -> None:
    """Note the same as `timestamp`, read from the records: right for transactions, too.

    Try it:  noted-time observe kafka read-timestamp 127.0.0.1:9092 flights --delay 5m
    """
    of.observe(noting, _reading("", start, ahead), noting.event_time(delay, idle))


@app.command()
@command
def field(  # noqa: PLR0913 - one parameter for each flag
    of: Observed,
    noting: Noting,
    *,
    field: Annotated[
        str, option("FIELD", "The JSON field of the event time, or `module:function`.", "--field")
    ],
    delay: Delay,
    idle: Idle = IDLE_MS,
    start: Start = "latest",
    ahead: Ahead = AHEAD_MS,
) -> None:
    """Note the newest time in the records of each partition less the delay; all are read.

    The time is a field of a JSON object (a dotted path for one within another), in Unix ms or ISO
    8601 with a zone, or what a function of the confluent_kafka.Message returns.

    Try it:  noted-time observe kafka field 127.0.0.1:9092 flights --field departure --delay 5m
    """
    of.observe(noting, _reading(field, start, ahead), noting.event_time(delay, idle))


@app.command()
@command
def broker_time(
    of: Observed,
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
        lambda config, topic, noted: writer_client.KafkaBrokerTimes(
            config, topic, skew_ms=skew, lag_ms=lag, client_of=noted.client_of
        ),
        noting.event_time(),
    )


@app.command()
@command
def resolved(of: Observed, noting: Noting, *, ahead: Ahead = AHEAD_MS) -> None:
    """Note what a changefeed of CockroachDB has resolved, exactly. All records are read.

    Try it:  noted-time observe kafka resolved 127.0.0.1:9092 accounts
    """
    of.observe(
        noting,
        lambda config, topic, noted: writer_client.KafkaResolved(
            config, topic, known=noted.known, among=noted.among, ahead_ms=ahead
        ),
        noting.event_time(),
    )


def _reading(field: str, start: Literal["earliest", "latest"], ahead_ms: int | None) -> Look:
    """Return what makes a look that reads a field of the records, or their timestamps."""

    def look(config: Mapping[str, Any], topic: str, noted: NotedSoFar) -> Looks:
        from writer_client.kafka.fields import timestamp as timestamp_of

        return writer_client.KafkaFields(
            config,
            topic,
            field or timestamp_of,
            start=start,
            known=noted.known,
            among=noted.among,
            ahead_ms=ahead_ms,
            client_of=noted.client_of,
        )

    return look
