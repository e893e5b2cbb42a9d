"""All commands of `noted-time`, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from controller.cli import (
    alignments,
    demos,
    explaining,
    serving,
    spark,
    streams,
    tokens,
    waiting,
    writers,
)

app = typer.Typer(
    name="noted-time",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
RUN, CALL, READ, LOOK = "Run a controller", "Call a controller", "Read a stream", "Look at examples"
for panel, commands in {
    RUN: (serving.serve, serving.migrate),
    CALL: (
        explaining.explain,
        explaining.watch,
        writers.writers,
        writers.remove,
        writers.hold,
        writers.ledger,
        writers.changes,
        streams.seal,
        waiting.wait,
    ),
    READ: (spark.spark_jars,),
    LOOK: (demos.demo_stream,),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for panel, module in ((RUN, tokens), (CALL, streams), (CALL, alignments), (LOOK, demos)):
    app.add_typer(module.app, rich_help_panel=panel)


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
