"""The names of this package that the commands of extensions may use: options and output."""

from __future__ import annotations

from noted_time_cli.client.datasets import Names
from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    SchemaOptions,
    TopicArgument,
    build_kafka_config,
)
from noted_time_cli.terminal.flags import command, group_command, refuse_options
from noted_time_cli.terminal.options import (
    DEFAULT_URL,
    NO_VALUES,
    AsJson,
    DomainOption,
    Ignore,
    LogRoot,
    Stream,
    Token,
    Url,
    WrittenTimes,
    duration,
    option,
)
from noted_time_cli.terminal.output import Columns, echo, fail, print_table, say

__all__ = [
    "DEFAULT_URL",
    "NO_VALUES",
    "AsJson",
    "Bootstrap",
    "Columns",
    "Config",
    "DomainOption",
    "Ignore",
    "LogRoot",
    "Names",
    "SchemaOptions",
    "Stream",
    "Token",
    "TopicArgument",
    "Url",
    "WrittenTimes",
    "build_kafka_config",
    "command",
    "duration",
    "echo",
    "fail",
    "group_command",
    "option",
    "print_table",
    "refuse_options",
    "say",
]
