"""`noted-time observe kafka`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

import writer_client
from noted_time.observing import TimeForm
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
    SkippedRecords,
)
from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    StreamOfTopic,
    TopicArgument,
    build_kafka_config,
)
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import UnitOption
from noted_time_cli.terminal.output import say

app = typer.Typer(
    name="kafka",
    no_args_is_help=True,
    short_help="Note the arrival or event times of a Kafka topic.",
)


@app.callback()
def describe_kafka() -> None:
    """Watch a Kafka topic and note time for it.

    Exit statuses:

    - 0: stopped by Ctrl-C or `--for`.
    - 1: refused: the topic or stream does not exist or was recreated, or a right is missing.
    - 69: with `--for`, no broker or controller answered.

    The watermark waits for the observer until it times out.

    Try it:  noted-time observe kafka timestamp 127.0.0.1:9092 flights --delay 5m
    """


LooksFactory = Callable[[Mapping[str, Any], str, writer_client.WriterClient], Looks]
"""Returns the observer's looks at a topic: gets the configuration, the topic and the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic, its brokers and its stream."""

    bootstrap: Bootstrap
    topic: TopicArgument
    stream: StreamOfTopic = None
    config: Config = None

    def observe(self, noting: Noting, make_looks: LooksFactory, noter: Noter) -> None:
        """Observe the topic until the end of the command. If no broker answers, warn and try again.

        `noter` makes the observer: `noting.make_clock_noter` or `noting.make_times_noter`.
        """
        config = build_kafka_config(self.bootstrap, self.config)
        from noted_time.kafka import Topic as KafkaTopic

        try:
            KafkaTopic(config, self.topic).look()
        except Unreachable as error:  # the address may be wrong
            say(f"noted-time: {error}; trying again")
        noting.observe(
            self.stream or self.topic, lambda client: make_looks(config, self.topic, client), noter
        )


@group_command(app)
def ingestion(
    topic: ObservedTopic, *, skew: Skew = 0, max_lag: MaxLag = MAX_LAG_MS, noting: NotingIngestion
) -> None:
    """Note when records became visible, by this machine's clock.

    An open transaction holds back the end of its partition.

    Try it:  noted-time observe kafka ingestion 127.0.0.1:9092 flights
    """
    topic.observe(
        noting,
        lambda config, name, _: writer_client.KafkaEnds(config, name),
        noting.make_clock_noter(skew, max_lag),
    )


@group_command(app)
def timestamp(  # noqa: PLR0913 - one parameter for each flag
    topic: ObservedTopic,
    *,
    delay: Delay,
    idle: Idle = IDLE_MS,
    unit: UnitOption = None,
    skipped_records: SkippedRecords,
    noting: Noting,
) -> None:
    """Note the newest timestamp of the slowest partition, minus the delay.

    No records are read. If transactions stay open for longer than the delay, use `read-timestamp`.

    Try it:  noted-time observe kafka timestamp 127.0.0.1:9092 flights --delay 5m
    """
    topic.observe(
        noting,
        lambda config, name, client: writer_client.KafkaTimes(
            config,
            name,
            form=noting.choose_form(client, TimeForm(unit)),
            passes=skipped_records.passes,
        ),
        noting.make_times_noter(delay, idle),
    )
