"""The command line of the demo: `noted-time demo flights`."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from demo import findings, observers, report, tables
from demo.data import read_flights
from demo.stage import DATABASE, Result, bars_on, staged
from demo.surroundings import SurroundingsError, broker, controller, keep_database
from demo.trials.descendants import end_with_this_process
from noted_time import NotedTimeError
from noted_time.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

TERMINATED = 128 + signal.SIGTERM
OUT = Path("flights-demo")
KEPT_DATABASE = "flights.db"
OF_THE_COMPARISON = ("delay", "speed", "rows_per_batch", "simulate_own")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def flights(  # noqa: PLR0913 - the options of a command
    context: typer.Context,
    *,
    story: Annotated[
        Literal["observers"] | None,
        typer.Option(help="With --kafka, play this instead: producers that do not note."),
    ] = None,
    of_tables: Annotated[
        bool,
        typer.Option(
            "--tables", help="Play this instead: a Delta table that says up to when it is complete."
        ),
    ] = False,
    months: Annotated[int, typer.Option(min=1, max=12, help="How much of 2013 to replay.")] = 1,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only the first days of that: a quick look, 4 with --tables by default."
        ),
    ] = None,
    delay: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Delay of Spark's own watermark in hours; may be given several times. The least "
            "that loses nothing is always added.",
        ),
    ] = [2, 4, 6, 8],  # noqa: B006 - typer takes the list of a repeated option this way
    speed: Annotated[
        float, typer.Option(min=0, help="Hours of replay per second; 0: as fast as it goes.")
    ] = 0,
    rows_per_batch: Annotated[
        int, typer.Option(min=1, help="Rows per micro-batch of the query under noted time.")
    ] = 200,
    simulate_own: Annotated[
        bool,
        typer.Option(
            "--simulate-own/--run-own",
            help="Take Spark's own watermark from the simulation, or run that, too: one "
            "micro-batch for each hour with a departure, many minutes for a year.",
        ),
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Through a Kafka broker; one of its producers is killed."),
    ] = False,
    bootstrap: Annotated[
        str, typer.Option(help="As --kafka, at a broker of your own, without a topic flights.")
    ] = "",
    out: Annotated[
        Path, typer.Option(help="Where to put the picture, the figures (.json) and flights.db.")
    ] = OUT,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep log and checkpoints as well, in OUT/run.")
    ] = False,
    stay: Annotated[
        bool,
        typer.Option(
            "--open", help="Keep a controller up at the end, with its page, until Ctrl-C."
        ),
    ] = False,
) -> None:
    """Replay real flights: rows lost and latency, noted time against guessed delays.

    With --tables or --story, another side of noted time is played on the same flights, in a few
    minutes.
    Ends with status 1 if noted time lost a row, or the story did not keep its promise.
    The controller's database stays in OUT, so that the flights can be looked at.
    """
    end_with_this_process()
    console = Console()
    with _ending_in_order(console):
        played = _story(context, story, of_tables=of_tables)
        if of_tables and days is None and not _is_given(context, "months"):
            days = tables.DAYS
        data = read_flights(months, days)
        delays = tuple(sorted({*delay, findings.least_full_hours(data)}))
        plan = findings.Plan(delays, rows_per_batch, speed, run_own=not simulate_own)
        kafka = kafka or bool(bootstrap)
        opening = played.opening(data) if played else report.plot(data, plan, kafka=kafka)
        _say(console, report.opening(data), *opening)
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            directory = stack.enter_context(_directory(out if keep else None))
            if kafka and not bootstrap:
                bootstrap = stack.enter_context(broker(directory))
            bars = stack.enter_context(bars_on(console))
            with staged(data, directory, bars, bootstrap) as stage:
                result = played.play(stage) if played else findings.play(stage, plan)
            keep_database(directory / DATABASE, out / KEPT_DATABASE)
            if of_tables:
                shutil.rmtree(out / tables.TABLE, ignore_errors=True)
                shutil.copytree(directory / tables.TABLE, out / tables.TABLE)
        _show(console, result, out / (played.NAME if played else "flights"))
        if of_tables:
            url = quote(f"delta:{out / tables.TABLE}")
            _say(console, f"The table stays; ask it:\n  noted-time complete-to --table {url}")
        if stay:
            _stay_up(console, out / KEPT_DATABASE, result.stream)
        else:
            _say(console, report.where(out / KEPT_DATABASE, result.stream))
    raise typer.Exit(1 if result.broken else 0)


def _story(context: typer.Context, name: str | None, *, of_tables: bool) -> ModuleType | None:
    """Return the module of the story that is to be played, `None` for the comparison.

    Raises `BadParameter` for options that do not belong together.
    """
    if not (name or of_tables):
        return None
    shown = "--tables" if of_tables else f"--story {name}"
    for each in OF_THE_COMPARISON:
        if _is_given(context, each):
            option = f"--{each.replace('_', '-')}"
            raise typer.BadParameter(f"{option} belongs to the comparison, not to {shown}")
    on_kafka = _is_given(context, "kafka") or _is_given(context, "bootstrap")
    if of_tables and (name or on_kafka):
        raise typer.BadParameter("--tables plays on files: leave out --story, --kafka, --bootstrap")
    if name and not on_kafka:
        raise typer.BadParameter(f"--story {name} requires --kafka")
    return tables if of_tables else observers


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _show(console: Console, result: Result, out: Path) -> None:
    """Show the result; `out` is the path of its files without their suffixes."""
    console.print(result.table)
    _say(console, *result.meaning)
    for sentence in result.broken:
        console.print(sentence, style="red", highlight=False, markup=False)
    result.picture.savefig(out.with_suffix(".png"))
    out.with_suffix(".json").write_text(json.dumps(result.figures, indent=2) + "\n")
    _say(console, f"The picture is {out}.png, the figures {out}.json.")


def _say(console: Console, *sentences: str) -> None:
    """Print sentences; an address may be copied from the terminal, so its line stays unbroken."""
    for sentence in sentences:
        console.print(sentence, highlight=False, markup=False, soft_wrap="://" in sentence)


def _stay_up(console: Console, database: Path, stream: str) -> None:
    """Serve the database until Ctrl-C."""
    with TemporaryDirectory(prefix="noted-time-") as logs, controller(database, Path(logs)) as url:
        _say(console, f"Until Ctrl-C the flights are at {report.page(url, stream)}")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
    database.with_name(f"{database.name}.serving").unlink(missing_ok=True)


@contextmanager
def _directory(kept_in: Path | None) -> Iterator[Path]:
    """Yield an empty directory: one that stays in `kept_in`, or a temporary one."""
    if kept_in is None:
        with TemporaryDirectory(prefix="noted-time-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    kept = (kept_in / "run").resolve()
    try:
        kept.mkdir()
    except FileExistsError:
        raise SurroundingsError(
            f"{kept} is there already: remove it, or choose another --out"
        ) from None
    yield kept


@contextmanager
def _ending_in_order(console: Console) -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C, and report expected errors in a sentence."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    except (SurroundingsError, NotedTimeError) as error:
        console.print(f"noted-time: {error}", style="red")
        raise typer.Exit(2) from error
    except PackageNotFoundError as error:
        missing = f"noted-time: the demo's data are missing: {install_command('demo')}"
        console.print(missing, markup=False, soft_wrap=True)
        raise typer.Exit(2) from error
    finally:
        signal.signal(signal.SIGTERM, before)
