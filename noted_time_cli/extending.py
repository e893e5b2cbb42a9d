"""The names of this package that the commands of extensions may use: options and output.

`noted-time observe kafka NAME` of an extension has the parameters `ObservedTopic` and `Noting`, and
calls `ObservedTopic.observe`. A command that observes another log calls `Noting.observe`.
"""

from __future__ import annotations

from noted_time_cli.client.datasets import Names
from noted_time_cli.doctor.verdict import Finding
from noted_time_cli.observers.kafka import LooksFactory, ObservedTopic
from noted_time_cli.observers.noting import (
    IDLE_MS,
    MAX_LAG_MS,
    Delay,
    Idle,
    MaxLag,
    Noter,
    Noting,
    NotingIngestion,
    NullOption,
    Skew,
    SkippedRecords,
)
from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    TopicArgument,
    build_kafka_config,
    read_properties,
)
from noted_time_cli.terminal.flags import command, group_command, refuse_options
from noted_time_cli.terminal.options import (
    DEFAULT_URL,
    NO_VALUES,
    AsJson,
    DomainOption,
    Stream,
    Token,
    UnitOption,
    Url,
    WrittenTimes,
    duration,
    option,
)
from noted_time_cli.terminal.output import Columns, echo, echo_json, fail, print_table, say

__all__ = [
    "DEFAULT_URL",
    "IDLE_MS",
    "MAX_LAG_MS",
    "NO_VALUES",
    "AsJson",
    "Bootstrap",
    "Columns",
    "Config",
    "Delay",
    "DomainOption",
    "Finding",
    "Idle",
    "LooksFactory",
    "MaxLag",
    "Names",
    "Noter",
    "Noting",
    "NotingIngestion",
    "NullOption",
    "ObservedTopic",
    "Skew",
    "SkippedRecords",
    "Stream",
    "Token",
    "TopicArgument",
    "UnitOption",
    "Url",
    "WrittenTimes",
    "build_kafka_config",
    "command",
    "duration",
    "echo",
    "echo_json",
    "fail",
    "group_command",
    "option",
    "print_table",
    "read_properties",
    "refuse_options",
    "say",
]
