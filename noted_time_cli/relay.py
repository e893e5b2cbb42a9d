"""`noted-time relay`: copy the marks of a stream to a topic."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    StreamOfTopic,
    TopicArgument,
    build_kafka_config,
)
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.health import HealthPort
from noted_time_cli.terminal.options import DEFAULT_URL, Token, Url
from noted_time_cli.terminal.output import echo
from noted_time_cli.terminal.running import Lasting, run_for

SILENCE_LIMIT_S = 60.0

app = typer.Typer(name="relay", no_args_is_help=True, help="Copy marks to a separate topic.")


@group_command(app)
def kafka(  # noqa: PLR0913 - one parameter for each flag
    bootstrap: Bootstrap,
    topic: TopicArgument,
    *,
    stream: StreamOfTopic = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="Relay only this domain. Repeatable.")
    ] = None,
    config: Config = None,
    lasting: Lasting = None,
    health_port: HealthPort = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Write each mark of a stream to TOPIC.noted, once all records below its cut are readable.

    Several relays of one topic may run.

    Exit statuses:

    - 0: stopped by Ctrl-C or `--for`, or the final mark of a sealed stream is written.
    - 1: the controller or the broker refused.
    - 69: with `--for`, no broker or controller answered.

    Try it:  noted-time relay kafka 127.0.0.1:9092 flights
    """
    from reader_client import KafkaRelay

    connection = build_kafka_config(bootstrap, config)
    relay = KafkaRelay(
        connection, topic, controller=url, stream=stream, domains=domain or (), token=token
    )
    with closing(relay):
        echo(f"relays the marks of stream {relay.stream} to {relay.noted.name}")
        run_for(relay, lasting, health_port, SILENCE_LIMIT_S)
        if relay.is_over:
            echo(f"{relay.stream} is sealed, and its final mark is relayed")
