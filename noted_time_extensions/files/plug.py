"""Declares the commands and checks of the extension `files`."""

from __future__ import annotations

from noted_time.extending import Command

COMMANDS = [
    Command(
        words="observe log",
        panel="",
        help="Note the arrival or event times of a file log.",
        function="noted_time_extensions.files.log_commands:app",
    )
]

CHECKS = {"log": "noted_time_extensions.files.log_check:check_log"}
