"""Declares the command of the extension `debezium`."""

from __future__ import annotations

from noted_time.extending import Command

COMMANDS = [
    Command(
        words="observe kafka debezium",
        panel="Commands",
        help="Note the commit times of a source database for a topic of Debezium.",
        function="noted_time_extensions.debezium.command:debezium",
    )
]
