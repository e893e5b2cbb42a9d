"""What the comparison and a story play with, and the result of either."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.replay import STREAM
from demo.surroundings import KAFKA, controller, spark_session
from spark_integration import spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

    from demo.data import Flights

DATABASE = "noted-time.db"


@dataclass(frozen=True, slots=True)
class Stage:
    """The flights, a controller at `url`, a Spark, a directory, and bars for what takes long.

    `bootstrap` is the address of a Kafka broker, empty without one.
    `beside` runs what talks to Spark: the main thread may be interrupted, which Spark's client
    cannot handle.
    """

    flights: Flights
    url: str
    spark: SparkSession
    beside: Executor
    directory: Path
    bars: Progress
    bootstrap: str = ""

    @property
    def log(self) -> Path:
        """The root of the file log."""
        return self.directory / "log"

    def written(self) -> DataFrame:
        """Return all that the log has."""
        return self.spark.read.parquet(str(self.log / STREAM))

    def bar(self, description: str, total: int) -> Callable[[int], None]:
        """Show a bar and return what to call with how much is done; `total` fills it.

        Where there is no terminal, a line says so of each quarter.
        """
        task = self.bars.add_task(description, total=total)
        left = [25, 50, 75, 100]

        def done(completed: int) -> None:
            self.bars.update(task, completed=min(completed, total))
            while self.bars.disable and left and 100 * completed >= left[0] * total:
                self.bars.console.print(f"{description}: {left.pop(0)} %", highlight=False)

        return done


@contextmanager
def staged(
    flights: Flights, directory: Path, bars: Progress, bootstrap: str = ""
) -> Iterator[Stage]:
    """Yield a stage in `directory`; whatever it started has ended after the block.

    The controller's SQLite file is `DATABASE` there. With `bootstrap`, Spark can read Kafka.
    """
    jars = spark_jars(KAFKA / "connector") if bootstrap else ""
    with (
        controller(directory / DATABASE, directory) as url,
        ThreadPoolExecutor(2) as beside,
        spark_session(directory, jars) as spark,
    ):
        yield Stage(flights, url, spark, beside, directory, bars, bootstrap)


def bars_on(console: Console) -> Progress:
    """Return bars that are live while the value is entered, where there is a terminal."""
    description = TextColumn("{task.description:<50}")
    bar, share = BarColumn(bar_width=28), TaskProgressColumn()
    columns = description, bar, share, TimeElapsedColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a story: `meaning` in sentences, and `figures` that JSON can hold.

    `broken` has the promises that the story did not keep. `stream` is the one to look at.
    """

    table: Table
    meaning: tuple[str, ...]
    figures: Mapping[str, Any]
    picture: Figure
    broken: tuple[str, ...] = ()
    stream: str = STREAM


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, ours: str
) -> Table:
    """Return a table of each method's result; the row whose first cell is `ours` stands out."""
    shown = Table(title=title)
    method, *others = headings
    shown.add_column(method, no_wrap=True)
    for heading in others:
        shown.add_column(heading, justify="right")
    for row in rows:
        shown.add_row(*row, style="bold green" if row[0] == ours else None)
    return shown
