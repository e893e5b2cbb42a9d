"""The surroundings of the comparison and the stories, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from demo.data import Flights
from demo.progress import Bar, Describe
from demo.surroundings import kafka_broker, require_java, spark_session
from tools.trials import kafka, s3
from tools.trials.kafka import Broker

FLIGHTS_TABLE = "flights-table"
HOURS_TABLE = "hours-table"
"""The tables of `--tables` in the directory of the files that stay."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The flights, a controller at `url`, a Spark, a directory, and progress bars.

    `out` has the files that stay, and `store` is the bucket of the log, if it has one. `beside`
    runs calls of Spark, whose client cannot handle the main thread's interrupts.
    """

    flights: Flights
    url: str
    spark: SparkSession
    beside: Executor
    directory: Path
    out: Path
    bars: Progress
    broker: Broker | None = None
    store: str = ""

    @property
    def bootstrap(self) -> str:
        return self.broker.address if self.broker else ""

    @property
    def log(self) -> str:
        return f"{self.store or self.directory}/log"

    def bar(self, description: str, total: int, describe: Describe | None = None) -> Bar:
        """Show a bar, and return a function that sets how much of `total` is done.

        `describe` says how far that is, by default the number alone.
        """
        return Bar(self.bars, description, total, describe)


@contextmanager
def open_stage(  # noqa: PLR0913 - what there is on it
    flights: Flights,
    url: str,
    directory: Path,
    out: Path,
    console: Console,
    *,
    on_kafka: bool,
    in_store: bool = False,
) -> Iterator[Stage]:
    """Yield a stage in `directory`, which ends with the block."""
    if on_kafka:
        require_java("Kafka")
        kafka.install()
    with ExitStack() as stack:
        broker = stack.enter_context(kafka_broker(directory / "kafka")) if on_kafka else None
        store = stack.enter_context(s3.create_bucket(directory / "s3.log")) if in_store else ""
        bars = stack.enter_context(bars_on(console))
        beside = stack.enter_context(ThreadPoolExecutor(2))
        jars = ",".join(kafka.connector()) if on_kafka else ""
        spark = stack.enter_context(spark_session(directory, jars))
        yield Stage(flights, url, spark, beside, directory, out, bars, broker, store)


def bars_on(console: Console) -> Progress:
    """Return bars that are live within `with`, on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TextColumn("{task.fields[status]}"),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a story: sentences, and `figures` for JSON.

    `broken` has the promises that it did not keep. The comparison has a picture, light and dark, by
    the ending of its file's name.
    """

    table: Table
    meaning: tuple[str, ...]
    figures: Mapping[str, Any]
    broken: tuple[str, ...] = ()
    pictures: Mapping[str, Figure] = field(default_factory=dict)


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, ours: str
) -> Table:
    """Return a table of each method's result, with the row `ours` highlighted."""
    rich_table = Table(title=title)
    method, *other_headings = headings
    rich_table.add_column(method, no_wrap=True)
    for heading in other_headings:
        rich_table.add_column(heading, justify="right")
    for row in rows:
        rich_table.add_row(*row, style="bold green" if row[0] == ours else None)
    return rich_table
