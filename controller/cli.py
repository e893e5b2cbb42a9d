"""The command line: `noted-time serve`, `migrate`, `demo`."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import structlog
import typer

from controller.api.server import serve as serve_app
from controller.service import logs
from controller.service.controller import Controller
from controller.store import migrate as migrations
from controller.store.alone import alone
from controller.store.open import MEMORY, open_store
from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError

if TYPE_CHECKING:
    from collections.abc import Iterator

log = structlog.get_logger()

DEFAULT_DATABASE = "sqlite:///noted-time.db"
DEFAULT_PORT = 7464

app = typer.Typer(
    name="noted-time",
    help="Watermarks that the writers vouch for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
demo = typer.Typer(help="Examples on real data that run here and now.", no_args_is_help=True)
app.add_typer(demo, name="demo")

Database = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_DATABASE",
        help="Where notes and marks are kept: sqlite:///FILE (four slashes for an absolute path), "
        "or memory: for a trial that forgets.",
    ),
]


@app.command()
def serve(
    database: Database = DEFAULT_DATABASE,
    host: Annotated[
        str, typer.Option(envvar="NOTED_TIME_HOST", help="Address to bind to; loopback by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="NOTED_TIME_PORT", min=0, max=65535, help="0 picks a free one.")
    ] = DEFAULT_PORT,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(envvar="NOTED_TIME_LOG_LEVEL")
    ] = "info",
    log_format: Annotated[
        logs.Format, typer.Option(envvar="NOTED_TIME_LOG_FORMAT", help="auto: JSON off a terminal.")
    ] = "auto",
) -> None:
    """Run the controller.

    A database that does not exist yet is made; one of an older version is left alone until
    `noted-time migrate`.

    Try it:  curl -X PUT http://127.0.0.1:7464/v1/streams/flights
    """
    logs.configure(log_level, log_format)
    log.info("starting", database=_without_password(database))
    with _told_plainly():
        if database != MEMORY:
            migrations.make_where_new(database)
        store = open_store(database)
        with alone(database):
            serve_app(Controller(store), host=host, port=port)


@app.command()
def migrate(database: Database = DEFAULT_DATABASE) -> None:
    """Bring the database to this version's tables, making it where there is none."""
    with _told_plainly():
        migrations.migrate(database)
    typer.echo(f"{_without_password(database)} is at the current schema.")


@demo.command(
    name="flights",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def flights(context: typer.Context) -> None:
    """Replay a month of real flights: rows lost and latency, noted time against guessed delays."""
    # By name: the examples lie above the controller.
    command = import_module("examples.flights.cli").app
    command(context.args, prog_name="noted-time demo flights")


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    return f"{scheme}{separator}***@{place}" if at else url


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Say what went wrong in a sentence, and end with status 1."""
    try:
        yield
    except (StoreUnavailable, NotedTimeError) as error:
        typer.echo(f"noted-time: {error}", err=True)
        raise typer.Exit(1) from error


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
