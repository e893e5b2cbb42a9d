"""The command line of the demo: `noted-time demo flights`."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from examples.flights import picture, report
from examples.flights.data import HOUR_MS, Flights, read_flights
from examples.flights.demo import DATABASE, Findings, Plan, find, least_full_hours
from examples.flights.simulation import least_delay_without_loss, own_watermark
from examples.flights.story import Story
from examples.flights.surroundings import SurroundingsError, controller, keep_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

TERMINATED = 128 + signal.SIGTERM
OUT = Path("flights-demo")
KEPT_DATABASE = "flights.db"
CURVE_STEP_MS = HOUR_MS // 4

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def flights(  # noqa: PLR0913 - the options of a command
    *,
    months: Annotated[int, typer.Option(min=1, max=12, help="How much of 2013 to replay.")] = 1,
    days: Annotated[
        int | None, typer.Option(min=1, help="Only the first days of that: a quick look.")
    ] = None,
    delay: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Delay of Spark's own watermark in hours; may be given several times. The least "
            "that loses nothing is always added.",
        ),
    ] = [2, 4, 6, 8],  # noqa: B006 - typer takes the list of a repeated option so
    speed: Annotated[
        float, typer.Option(min=0, help="Hours of replay per second; 0: as fast as it goes.")
    ] = 0,
    rows_per_batch: Annotated[
        int, typer.Option(min=1, help="Rows per micro-batch of the query under noted time.")
    ] = 200,
    run_own: Annotated[
        bool,
        typer.Option(
            "--run-own/--simulate-own",
            help="Let Spark run under its own watermark, too, one micro-batch for each hour with a "
            "departure (many minutes for a year), or take that from the simulation.",
        ),
    ] = True,
    out: Annotated[Path, typer.Option(help="Where to put flights.png, .json and .db.")] = OUT,
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

    Ends with status 1 where noted time lost a row. The controller's database stays in OUT, so that
    the flights can be looked at.
    """
    console = Console()
    with _ending_in_order(console):
        data = read_flights(months, days)
        _say(console, report.opening(data))
        delays = tuple(sorted({*delay, least_full_hours(data)}))
        out.mkdir(parents=True, exist_ok=True)
        plan = Plan(delays, rows_per_batch, speed, run_own)
        _say(console, *report.plot(data, plan))
        with _directory(out if keep else None) as directory, Story(console) as story:
            findings = find(data, plan, directory, story)
            keep_database(directory / DATABASE, out / KEPT_DATABASE)
        _tell(console, data, findings, out)
        if stay:
            _stay_up(console, out / KEPT_DATABASE)
        else:
            _say_unbroken(console, report.where(out / KEPT_DATABASE))
    raise typer.Exit(1 if findings.measured[0].lost else 0)


def _tell(console: Console, data: Flights, findings: Findings, out: Path) -> None:
    console.print(report.results(findings))
    _say(console, *report.closing(findings, least_delay_without_loss(data)))
    longest = max(outcome.delay_ms or 0 for outcome in findings.shown)
    delays = range(HOUR_MS, longest + 1, CURVE_STEP_MS)
    picture.draw(findings, [own_watermark(data, each) for each in delays], out / "flights.png")
    (out / "flights.json").write_text(report.figures(findings))
    _say(console, f"The picture is {out / 'flights.png'}, the figures {out / 'flights.json'}.")


def _say(console: Console, *sentences: str) -> None:
    for sentence in sentences:
        console.print(sentence, highlight=False, markup=False)


def _say_unbroken(console: Console, lines: str) -> None:
    """Say what may be copied from the terminal."""
    console.print(lines, highlight=False, markup=False, soft_wrap=True)


def _stay_up(console: Console, database: Path) -> None:
    """Serve the database until Ctrl-C."""
    with TemporaryDirectory(prefix="noted-time-") as logs, controller(database, Path(logs)) as url:
        _say_unbroken(console, f"Until Ctrl-C the flights are at {report.page(url)}")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
    database.with_name(f"{database.name}.serving").unlink(missing_ok=True)


@contextmanager
def _directory(kept_in: Path | None) -> Iterator[Path]:
    """Yield an empty directory: one that stays in `kept_in`, or one that goes."""
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
    """Clean up on SIGTERM as on Ctrl-C, and put what cannot be helped in a sentence."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except SurroundingsError as error:
        console.print(f"noted-time: {error}", style="red")
        raise typer.Exit(2) from error
    except PackageNotFoundError as error:
        console.print("noted-time: the demo's data are missing: pip install 'noted-time[demo]'")
        raise typer.Exit(2) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
