"""`noted-time status`: the controllers of a database, and the version that each of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.values import format_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.terminal.output import print_table, say

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

CONTROLLER_COLUMNS: Columns = {
    "controller": "url",
    "version": "version",
    "schema": "revision",
    "since": lambda row: None if row["since"] is None else format_time(row["since"]),
    "buckets": "buckets",
}


@client_command
def status(call: Caller) -> None:
    """Show the controllers that share the database, and which version each of them runs.

    `schema` is the revision of the tables that its code is for, `since` when it connected, and
    `buckets` how many parts of the streams it has.

    Try it:  noted-time status
    """
    found = call.ask("GET", "/v1/controllers")
    if not call.print_json(found):
        print_table(CONTROLLER_COLUMNS, found["controllers"])
        if risk := found["risk"]:
            say(risk)
