"""`noted-time status`."""

from __future__ import annotations

from noted_time.answers import ControllersAnswer
from noted_time.client import Question
from noted_time.values import format_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.terminal.output import Columns, make_column, print_table, say

CONTROLLER_COLUMNS: Columns = {
    "controller": "url",
    "version": "version",
    "zone data": "zone_data",
    "schema": "revision",
    "since": make_column("connected_at", format_time),
    "buckets": "buckets",
}


@client_command
def status(call: Caller) -> None:
    """Show the controllers that share the database, with their versions.

    `zone data` is the release of a controller's time zones, `-` if it is not known. `schema` is the
    revision of the database tables that the version needs, and `buckets` counts the controller's
    buckets of streams.

    Try it:  noted-time status
    """
    answer = call.ask_json(Question("GET", "/v1/controllers", answer=ControllersAnswer))
    if not call.print_json(answer):
        print_table(CONTROLLER_COLUMNS, answer["controllers"])
        if risk := answer["risk"]:
            say(risk)
