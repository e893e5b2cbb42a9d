"""All commands of `noted-time`, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from controller.cli import (
    alignments,
    changes,
    correcting,
    demo_stream,
    demos,
    explaining,
    sealing,
    serving,
    streams,
    tokens,
    waiting,
    watching,
    writers,
)

app = typer.Typer(
    name="noted-time",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for run in (serving.serve, serving.migrate):
    app.command(rich_help_panel="Run a controller")(run)
app.add_typer(tokens.app, rich_help_panel="Run a controller")

app.add_typer(streams.app, rich_help_panel="Call a controller")
for call in (
    explaining.explain,
    watching.watch,
    writers.writers,
    writers.remove,
    writers.hold,
    correcting.correct,
    writers.ledger,
    changes.changes,
    sealing.seal,
    waiting.wait,
):
    app.command(rich_help_panel="Call a controller")(call)
app.add_typer(alignments.app, rich_help_panel="Call a controller")
app.command(rich_help_panel="Look at examples")(demo_stream.demo_stream)
app.add_typer(demos.app, rich_help_panel="Look at examples")


def _show_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"noted-time {version('noted-time')}")
        raise typer.Exit


@app.callback()
def noted_time(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Watermarks that the writers vouch for.

    Run a controller:  noted-time serve

    Call one:  noted-time stream create flights
    """
