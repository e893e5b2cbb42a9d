"""The arguments and flags of commands that connect to Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noted_time.extras import needs_extra
from noted_time.kafka.named import FUNCTION, called
from noted_time.values import Rejected
from noted_time_cli.terminal.options import option

Bootstrap = Annotated[
    str, typer.Argument(metavar="BOOTSTRAP", help="The brokers, as `host:port,host:port`.")
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
StreamOfTopic = Annotated[
    str | None, option("STREAM", "The stream's name, if it is not the topic's.", "--stream")
]
Config = Annotated[
    str | None,
    option(
        "FILE",
        "Properties of librdkafka, one `name=value` a line: security. Or `module:function`, which "
        "is called and returns them, `oauth_cb` included.",
        "--config",
        "--kafka-settings",
    ),
]


def kafka_config(bootstrap: str, given: str | None) -> dict[str, Any]:
    """Return the configuration of a client of librdkafka, with the properties that are `given`.

    They are in a file, with `name=value` a line and comments that begin with #, or what a function
    returns, `module:function`. Raises `Rejected` naming the line that is neither, the function that
    cannot be called, or what librdkafka refuses.
    """
    if given is None:
        return {"bootstrap.servers": bootstrap}
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ModuleNotFoundError as error:
        raise needs_extra("--config", "kafka", error) from None

    file = Path(given)
    if ":" in given and not file.exists():
        return {**called({FUNCTION: given}), "bootstrap.servers": bootstrap}
    found: dict[str, str] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if name.startswith("#") or not (name or equals):
            continue
        if not (name and equals):
            raise Rejected(f"{file}, line {number}: write it as name=value")
        found[name] = value
    try:
        AdminClient({"log_level": 2, **found})
    except KafkaException as error:
        raise Rejected(f"{file}: {error.args[0].str()}") from error
    return {**found, "bootstrap.servers": bootstrap}
