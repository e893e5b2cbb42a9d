"""`noted-time demo`: the examples, where they are installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer

from controller.cli.output import told_plainly
from noted_time import Rejected

app = typer.Typer(
    name="demo", help="Examples on real data that run here and now.", no_args_is_help=True
)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def flights(context: typer.Context) -> None:
    """Replay a month of real flights: rows lost and latency, noted time against guessed delays."""
    with told_plainly():
        command = _example("examples.flights.cli").app
    command(context.args, prog_name="noted-time demo flights")


def _example(name: str) -> Any:  # noqa: ANN401 - a module
    """Return a module of the examples, by name as they lie above the controller."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise Rejected(
            f"the examples are not installed ({missing.name} is missing): "
            "clone the repository and run `./run demo` in it"
        ) from missing
