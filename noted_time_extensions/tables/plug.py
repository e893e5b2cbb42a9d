"""Declares the commands and datasets of the extension `tables`."""

from __future__ import annotations

from noted_time.extending import Command, Scheme

COMMANDS = [
    Command(
        words="claim",
        panel="Read a stream",
        help="Show and accept the claims of a table.",
        function="noted_time_extensions.tables.claim_commands:app",
    )
]

TABLE_SCHEME = Scheme("table", "noted_time_extensions.tables.table_dataset:open_table")

DATASETS = {"delta": TABLE_SCHEME, "iceberg": TABLE_SCHEME}
