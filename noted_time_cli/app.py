"""The app `noted-time` with all its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from noted_time import __version__
from noted_time.extensions import find_extensions
from noted_time.values import UNKNOWN_RELEASE, find_zone_release
from noted_time_cli import demos, relay
from noted_time_cli.client import (
    completing,
    explaining,
    note,
    status,
    streams,
    waiting,
    why,
    writers,
)
from noted_time_cli.doctor.command import doctor
from noted_time_cli.observers import kafka
from noted_time_cli.server import serving, tokens
from noted_time_cli.terminal.groups import CommandGroup
from noted_time_cli.terminal.output import begin_output, echo
from noted_time_cli.terminal.plugged import plug_in

app = typer.Typer(
    name="noted-time",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
observe = typer.Typer(
    name="observe", no_args_is_help=True, help="Note time for a log whose writers do not note."
)
observe.add_typer(kafka.app, cls=CommandGroup)
RUN_PANEL = "Run a controller"
CALL_PANEL = "Call a controller"
EXAMPLES_PANEL = "Look at examples"
WRITE_PANEL = "Write to a stream"
READ_PANEL = "Read a stream"
COMPLETE_PANEL = "Is it complete?"
for panel, commands in {
    RUN_PANEL: (serving.serve, serving.migrate),
    COMPLETE_PANEL: (
        waiting.wait,
        completing.complete_to,
        completing.windows,
        completing.changed_since,
        explaining.explain,
        why.why,
    ),
    CALL_PANEL: (
        doctor,
        status.status,
        writers.writers,
        writers.remove,
        writers.suspend_timeout,
        writers.ledger,
        writers.changes,
        streams.seal,
    ),
    WRITE_PANEL: (note.note,),
    EXAMPLES_PANEL: (demos.demo_stream,),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for panel, groups in {
    RUN_PANEL: (tokens.app,),
    CALL_PANEL: (streams.app,),
    WRITE_PANEL: (observe,),
    READ_PANEL: (relay.app,),
}.items():
    for group in groups:
        app.add_typer(group, cls=CommandGroup, rich_help_panel=panel)


FOUND_EXTENSIONS = plug_in(
    {"": app, "observe": observe, "observe kafka": kafka.app, "relay": relay.app}, find_extensions()
)


@app.callback(invoke_without_command=True)
def declare_options(
    context: typer.Context,
    *,
    is_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Watermarks that the writers vouch for.

    Run a controller:  noted-time serve

    Call one:  noted-time stream create flights
    """
    begin_output()
    context.obj = FOUND_EXTENSIONS
    if is_version and context.invoked_subcommand:
        raise typer.BadParameter("--version takes no command: leave one of them out")
    if is_version:
        echo(f"noted-time {__version__}")
        echo(f"zone data {find_zone_release() or UNKNOWN_RELEASE}")
        names = [extension.name for extension in FOUND_EXTENSIONS.used]
        echo(f"extensions {', '.join(names) or 'none'}")
        for name, reason in FOUND_EXTENSIONS.unused.items():
            echo(f"extension {name} is not used: {reason}")
