"""Declares the commands of the extension `analyse`."""

from __future__ import annotations

from noted_time.extending import Command

COMMANDS = [
    Command(
        words="analyse",
        panel="Look at examples",
        help="Compute the rows that a watermark delay would lose.",
        function="noted_time_extensions.analyse.commands:app",
    )
]
