"""`noted-time observe kafka debezium`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noted_time.extending import pluralize
from noted_time_cli.extending import Noting, ObservedTopic, command, duration, echo, fail, option
from noted_time_extensions.debezium.heartbeat_query import build_settings
from writer_client import Seen, WriterClient

if TYPE_CHECKING:
    from noted_time_extensions.debezium.commit_times import CommitTimes
    from noted_time_extensions.debezium.observing import DebeziumNoter, TimeJudge

TimeKind = Literal["commit", "start"]


def print_query(*, is_wanted: bool) -> None:
    """Print the settings of the heartbeat for `--by start`, and end the command."""
    if is_wanted:
        for setting in build_settings():
            echo(setting)
        raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectors:
    """The connectors that write the topic, and how their times are judged."""

    connector: Annotated[
        list[str], option("NAME", "A connector that writes the topic. Repeat it for each one.")
    ]
    offsets: Annotated[
        str, option("TOPIC", "The worker's `offset.storage.topic`.", default=True)
    ] = "connect-offsets"
    by: Annotated[
        TimeKind, typer.Option(help="The time of a change: its commit, or its transaction's start.")
    ] = "commit"
    delay: Annotated[
        int, duration("By how much times are out of order, and clocks differ.", default="1s")
    ] = 1000
    routed: Annotated[
        bool, typer.Option("--routed", help="A transformation has named the topic.")
    ] = False
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap", help="Go on after an offset was deleted: no change is missing."
        ),
    ] = False
    print_query: Annotated[
        bool,
        typer.Option(
            "--print-query",
            help="Print the connector's settings for `--by start`.",
            callback=lambda value: print_query(is_wanted=value),
            is_eager=True,
        ),
    ] = False

    def make_times(self, topic: str) -> CommitTimes:
        """Return the times of a topic, without an offset yet."""
        from noted_time_extensions.debezium.commit_times import CommitTimes
        from noted_time_extensions.debezium.start_times import StartTimes

        kind = StartTimes if self.by == "start" else CommitTimes
        return kind(
            topic,
            self.connector,
            offsets=self.offsets,
            delay_ms=self.delay,
            routed=self.routed,
            accepts_gaps=self.accept_gap,
        )

    def make_judge(self, config: Mapping[str, Any], topic: str, times: CommitTimes) -> TimeJudge:
        """Return what reads the topics of these connectors into `times`."""
        from noted_time_extensions.debezium import connectors, kafka_records
        from noted_time_extensions.debezium.start_times import StartTimes

        names = kafka_records.SourceNames(config, topic) if self.routed else None
        offsets = kafka_records.ConnectOffsets(config, self.offsets)
        if isinstance(times, StartTimes):
            heartbeats = kafka_records.Heartbeats(config)
            return connectors.StartJudge(times, offsets, heartbeats, names)
        return connectors.CommitJudge(times, offsets, names)


@command
def debezium(topic: ObservedTopic, *, connectors: Connectors, noting: Noting) -> None:
    """Note the commit times of a source database for a topic of Debezium.

    All changes committed before a noted time are in the topic, up to the delay. The column of these
    times is `source.ts_ms`, or with `--by start` one with `DEFAULT now()`. The source is
    PostgreSQL, MySQL, MariaDB or MongoDB.

    The exit statuses of `noted-time observe kafka` apply. The status is also 1 if a time went back.

    Try it:  noted-time observe kafka debezium 127.0.0.1:9092 sales.public.orders --connector shop
    """
    times = connectors.make_times(topic.topic)
    configs: list[Mapping[str, Any]] = []

    def make_looks(config: Mapping[str, Any], name: str, _: WriterClient) -> Callable[[], Seen]:
        from writer_client import KafkaEnds

        configs.append(config)
        return KafkaEnds(config, name)

    def make_noter(client: WriterClient, looks: Callable[[], Seen]) -> DebeziumNoter:
        from noted_time_extensions.debezium.kafka_records import HighWatermarks
        from noted_time_extensions.debezium.observing import DebeziumNoter

        (config,) = configs
        return DebeziumNoter(
            client,
            looks,
            read_ends=HighWatermarks(config, topic.topic).read,
            judging=connectors.make_judge(config, topic.topic, times),
            domain=noting.domain,
            poll_ms=noting.poll,
        )

    topic.observe(noting, make_looks, make_noter)
    if times.steps_back:
        fail(f"{pluralize(times.steps_back, 'time')} went back; see the warnings above", status=1)
