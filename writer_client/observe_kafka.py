"""`noted-time observe kafka`: note time for a topic whose producers do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from noted_time.client import options
from noted_time.values import NotAllowed, Rejected, Unreachable, duration_ms
from noted_time.wing import INGESTION
from writer_client.client import WriterClient
from writer_client.observe_options import (
    MAX_LAG,
    POLL,
    TIMEOUT,
    WRITER,
    Delay,
    Domain,
    Idle,
    Looks,
    MaxLag,
    Noting,
    Poll,
    Skew,
    Timeout,
    Way,
    WriterName,
    begin,
    way_of,
)
from writer_client.partition_writers import PartitionWriters

SKEW_MS = 1000
"""How far stamps of brokers may be apart."""


class TopicTime(StrEnum):
    """What is noted."""

    INGESTION = "ingestion"
    TIMESTAMP = "timestamp"
    FIELD = "field"
    BROKER_TIME = "broker-time"
    RESOLVED = "resolved"


class Start(StrEnum):
    """Where an observer that has not read before begins to read."""

    EARLIEST = "earliest"
    LATEST = "latest"


def kafka(  # noqa: PLR0913 - one parameter for each flag
    bootstrap: options.Bootstrap,
    topic: options.Topic,
    *,
    by: Annotated[
        TopicTime,
        typer.Option(
            help="The clock, the records' timestamps, a field of theirs, the brokers' stamps, or "
            "what a changefeed resolves."
        ),
    ] = TopicTime.INGESTION,
    field: Annotated[
        str | None,
        options.flag("The JSON field of the event time, or `module:function`.", metavar="FIELD"),
    ] = None,
    read: Annotated[
        bool | None,
        typer.Option(
            "--read",
            help="Read timestamps from the records, also in transactions.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        Start | None,
        typer.Option(
            "--from", help="Where to begin to read. By default latest.", show_default=False
        ),
    ] = None,
    ahead: Annotated[
        str | None,
        options.flag("Pass over records whose time is further ahead of this clock. By default 1h."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            help="Observe this partition only; may be given several times.", show_default=False
        ),
    ] = None,
    delay: Delay = None,
    idle: Idle = None,
    skew: Skew = None,
    lag: Annotated[
        str | None,
        options.flag("How old what cannot be seen may be. By default as replication allows: 50s."),
    ] = None,
    domain: Domain = None,
    stream: options.StreamOfTopic = None,
    config: options.Config = None,
    poll: Poll = POLL,
    max_lag: MaxLag = MAX_LAG,
    writer: WriterName = WRITER,
    share: Annotated[
        bool,
        typer.Option("--share", help="Share the partitions with other processes: a writer each."),
    ] = False,
    group: Annotated[
        str | None,
        options.flag(
            "The consumer group that shares them. By default noted-time.STREAM.WRITER.",
            metavar="GROUP",
        ),
    ] = None,
    timeout: Timeout = TIMEOUT,
    lasting: options.Lasting = None,
    url: options.Url = options.DEFAULT_URL,
    token: options.Token = None,
) -> None:
    """Watch a Kafka topic and note what can be concluded from it.

    By ingestion: whatever was visible at a moment lies below the ends read after it. An open
    transaction holds the end of its partition.

    By timestamp: the newest timestamp of each partition less the delay; the slowest partition
    counts. No record is read. If they are written in transactions that may come in later than the
    delay, use --read: the markers of transactions have timestamps, too.

    By field: the same by the times in the records, which are read: a field of a JSON object (a
    dotted path for one within another), in Unix ms or ISO 8601 with a zone, or what a function of
    the confluent_kafka.Message returns.

    By broker-time, for topics with LogAppendTime: the newest stamp that readers have passed in each
    partition less --skew (1s), or the clock less --lag where nothing is new and no transaction is
    open. No record is read, and no partition is ever idle.

    By resolved: the resolved records of a changefeed of CockroachDB, exactly. All records are read.

    With `--share`, several processes observe the topic: each partition has a writer of its own,
    WRITER-0 and so on, in the process that the consumer group assigns it to.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown topic or
    stream, missing right, a topic that was recreated). The observer stays a member of the stream:
    time waits for it until its timeout.

    Try it:  noted-time observe kafka 127.0.0.1:9092 flights --by timestamp --delay 5m
    """
    with options.ended_in_a_sentence():
        flags = {
            "delay": delay,
            "idle": idle,
            "skew": skew,
            "read": read,
            "from": start,
            "ahead": ahead,
            "lag": lag,
            "partition": partition or None,
        }
        way = way_of(WAYS, by, field=field, **flags)
        noting = Noting(
            domain=domain or way.domain,
            poll_ms=duration_ms(poll),
            max_lag_ms=duration_ms(max_lag),
            delay_ms=options.milliseconds(delay),
            idle_ms=options.milliseconds(idle),
            skew_ms=options.milliseconds(skew),
            lag_ms=options.milliseconds(lag),
        )
        lasting_ms, timeout_ms = options.milliseconds(lasting), duration_ms(timeout)
        name, domains = stream or topic, [noting.domain]
        connection = options.kafka_config(bootstrap, config)
        given = GivenTopic(
            connection,
            topic,
            noting,
            field=field,
            reads=read,
            start=start,
            ahead_ms=options.milliseconds(ahead),
            partitions=partition or None,
        )
        if share:
            if partition:
                raise Rejected("--share cannot be combined with --partition")
            writers = PartitionWriters(
                url, name, writer, domain=noting.domain, timeout_ms=timeout_ms, token=token
            )
            _share(way, noting, given, writers, group=group, lasting_ms=lasting_ms)
            return
        if group is not None:
            raise Rejected("--group requires --share")
        with WriterClient(
            url, name, writer, token=token, domains=domains, timeout_ms=timeout_ms
        ) as client:
            given = replace(given, known=lambda: client.position, late=client.wrote_late)
            observer = way.observer(noting, client, way.look(given))
            begin(client)
            options.run_for(observer, lasting_ms)


@dataclass(frozen=True, slots=True)
class GivenTopic:
    """A topic, the configuration of a client of librdkafka, and what of the records to read.

    `known` returns the position that the controller has of the writer, `among` the partitions to
    read if that is not all of them. `late` takes the number of records that were stamped below what
    was noted, and their least stamp.
    """

    config: Mapping[str, Any]
    name: str
    noting: Noting
    field: str | None = None
    reads: bool | None = None
    start: Start | None = None
    ahead_ms: int | None = None
    partitions: Sequence[int] | None = None
    known: Callable[[], Mapping[int, int]] = dict
    among: Callable[[], Mapping[int, int]] | None = None
    late: Callable[[int, int, int], object] | None = None


def _share(  # noqa: PLR0913 - all but three are named
    way: Way[GivenTopic],
    noting: Noting,
    topic: GivenTopic,
    writers: PartitionWriters,
    *,
    group: str | None,
    lasting_ms: int | None,
) -> None:
    """Observe the partitions that a consumer group assigns to this process."""
    from writer_client import SharedObserver  # noqa: PLC0415 - it needs confluent-kafka

    if lasting_ms == 0:
        raise Rejected("--for 0s looks once, and --share has no partition at first: leave one out")
    observer = SharedObserver(
        topic.config,
        topic.name,
        writers,
        lambda known: way.look(replace(topic, among=known)),
        lambda client, view: way.observer(replace(noting, clock=view.clock), client, view),
        group=group,
        poll_ms=noting.poll_ms,
    )
    with closing(observer):
        try:
            partitions = observer.begin()
            with suppress(NotAllowed):  # a token that may note need not read
                _advise(writers, writers.command(partitions))
        except Unreachable as error:
            typer.echo(f"noted-time: {error}; trying again", err=True)
        typer.echo(f"{writers.prefix}-… observes {writers.stream}, in group {observer.group}")
        options.run_for(observer, lasting_ms)


def _advise(writers: PartitionWriters, command: str | None) -> None:
    """Say how the stream comes to wait for the writers before any process has begun."""
    if command is not None:
        typer.echo(
            f"noted-time: {writers.stream} does not expect the writers of all partitions. If it is "
            f"created again, only this has time wait for them before they have begun:\n  {command}",
            err=True,
        )


def _ends(topic: GivenTopic) -> Looks:
    from writer_client import KafkaEnds  # noqa: PLC0415 - it needs confluent-kafka

    return KafkaEnds(topic.config, topic.name)


def _times(topic: GivenTopic) -> Looks:
    from writer_client import KafkaTimes  # noqa: PLC0415 - it needs confluent-kafka

    if topic.reads:
        if topic.partitions:
            raise Rejected("--read and --partition cannot be combined")
        return _fields(topic)
    for name, given in (("from", topic.start), ("ahead", topic.ahead_ms)):
        if given is not None:
            raise Rejected(f"--{name} requires --read, or --by field")
    return KafkaTimes(topic.config, topic.name, partitions=topic.partitions)


def _fields(topic: GivenTopic) -> Looks:
    from writer_client.kafka_fields import AHEAD_MS, KafkaFields, timestamp  # noqa: PLC0415 - likewise

    return KafkaFields(
        topic.config,
        topic.name,
        topic.field or timestamp,
        known=topic.known,
        start=(topic.start or Start.LATEST).value,
        among=topic.among,
        ahead_ms=AHEAD_MS if topic.ahead_ms is None else topic.ahead_ms,
    )


def _broker_times(topic: GivenTopic) -> Looks:
    from writer_client import KafkaBrokerTimes  # noqa: PLC0415 - it needs confluent-kafka

    skew_ms, lag_ms = topic.noting.skew_ms, topic.noting.lag_ms
    return KafkaBrokerTimes(
        topic.config,
        topic.name,
        skew_ms=SKEW_MS if skew_ms is None else skew_ms,
        lag_ms=lag_ms,
        on_late=topic.late,
    )


def _resolved(topic: GivenTopic) -> Looks:
    from writer_client import KafkaResolved  # noqa: PLC0415 - it needs confluent-kafka
    from writer_client.kafka_fields import AHEAD_MS  # noqa: PLC0415 - likewise

    return KafkaResolved(
        topic.config,
        topic.name,
        known=topic.known,
        among=topic.among,
        ahead_ms=AHEAD_MS if topic.ahead_ms is None else topic.ahead_ms,
    )


WAYS: Mapping[TopicTime, Way[GivenTopic]] = {
    TopicTime.INGESTION: Way(_ends, Noting.ingestion, optional=("skew",), domain=INGESTION),
    TopicTime.TIMESTAMP: Way(
        _times,
        Noting.event_time,
        required=("delay",),
        optional=("idle", "read", "from", "ahead", "partition"),
    ),
    TopicTime.FIELD: Way(
        _fields, Noting.event_time, required=("field", "delay"), optional=("idle", "from", "ahead")
    ),
    TopicTime.BROKER_TIME: Way(_broker_times, Noting.exact, optional=("skew", "lag")),
    TopicTime.RESOLVED: Way(_resolved, Noting.exact, optional=("ahead",)),
}
