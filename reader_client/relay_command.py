"""`noted-time relay`: copy the marks of a stream to where its readers find them."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from noted_time.client import options

app = typer.Typer(name="relay", no_args_is_help=True, help="Copy marks to a topic of their own.")


@app.command()
def kafka(  # noqa: PLR0913 - one parameter for each flag
    bootstrap: options.Bootstrap,
    topic: options.Topic,
    *,
    stream: options.StreamOfTopic = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(help="Relay this domain only; may be given several times."),
    ] = None,
    config: options.Config = None,
    lasting: options.Lasting = None,
    url: options.Url = options.DEFAULT_URL,
    token: options.Token = None,
) -> None:
    """Write each mark of a stream to TOPIC.noted, once all that its cut names is readable.

    Ends with status 0 on Ctrl-C, after `--for` or the final mark of a sealed stream, and with 1 if
    it is refused. Several may run, and do no harm.

    Try it:  noted-time relay kafka 127.0.0.1:9092 flights
    """
    with options.ended_in_a_sentence():
        from reader_client import KafkaRelay  # noqa: PLC0415 - it needs confluent-kafka

        connection = options.kafka_config(bootstrap, config)
        relay = KafkaRelay(connection, topic, url, stream=stream, domains=domain or (), token=token)
        with closing(relay):
            typer.echo(f"relays the marks of stream {relay.stream} to {relay.noted.name}")
            options.run_for(relay, options.milliseconds(lasting))
            if relay.is_over:
                typer.echo(f"{relay.stream} is sealed, and its final mark is relayed")
