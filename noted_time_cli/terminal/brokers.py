"""Arguments and flags of commands that connect to Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noted_time.extras import require_extra
from noted_time.kafka.config_function import FUNCTION_SETTING, resolve_config
from noted_time.values import Rejected
from noted_time_cli.terminal.options import option

Bootstrap = Annotated[
    str, typer.Argument(metavar="BOOTSTRAP", help="The brokers, as `host:port,host:port`.")
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
TopicOption = Annotated[
    str | None, option("TOPIC", "The topic's name. Default: the stream's name.")
]
StreamOfTopic = Annotated[
    str | None, option("STREAM", "The stream's name. Default: the topic's name.", "--stream")
]
Config = Annotated[
    str | None,
    option(
        "FILE",
        "Properties of librdkafka: a file with lines `name=value`, or a function "
        "`module:function` that returns them.",
        "--config",
        "--kafka-settings",
    ),
]


def read_properties(file: Path) -> dict[str, str]:
    """Read lines `name=value` and comments that begin with #. Raises `Rejected`."""
    properties: dict[str, str] = {}
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
        properties[name] = value
    return properties


def build_kafka_config(bootstrap: str, config: str | None) -> dict[str, Any]:
    """Return the configuration of a librdkafka client, or raise `Rejected` for a wrong one."""
    if config is None:
        return {"bootstrap.servers": bootstrap}
    with require_extra("--config", "kafka"):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    file = Path(config)
    if ":" in config and not file.exists():
        return {**resolve_config({FUNCTION_SETTING: config}), "bootstrap.servers": bootstrap}
    properties = read_properties(file)
    try:
        AdminClient({"log_level": 2, **properties})
    except KafkaException as error:
        raise Rejected(f"{file}: {error.args[0].str()}") from error
    return {**properties, "bootstrap.servers": bootstrap}
