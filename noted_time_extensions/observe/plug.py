"""Declares the commands of the extension `observe`."""

from __future__ import annotations

from noted_time.extending import Command

COMMANDS = [
    Command(
        words="observe kafka read-timestamp",
        panel="Commands",
        help="Note the same as `timestamp`, but read all records. Works with transactions.",
        function="noted_time_extensions.observe.observer_commands:read_timestamp",
    ),
    Command(
        words="observe kafka field",
        panel="Commands",
        help="Note the newest event time in the records of the slowest partition, minus the delay.",
        function="noted_time_extensions.observe.observer_commands:field",
    ),
    Command(
        words="observe kafka resolved",
        panel="Commands",
        help="Note the resolved timestamps of a CockroachDB changefeed. All records are read.",
        function="noted_time_extensions.observe.observer_commands:resolved",
    ),
]
