"""What a story needs, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from examples.flights.replay import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

    from examples.flights.data import Flights
    from examples.flights.surroundings import Bars


@dataclass(frozen=True, slots=True)
class Stage:
    """The flights, a controller at `url`, a Spark, a directory, and bars for what takes long.

    `beside` runs what talks to Spark: the main thread may be interrupted, which Spark's client
    cannot handle.
    """

    flights: Flights
    url: str
    spark: SparkSession
    beside: Executor
    directory: Path
    bars: Bars

    @property
    def log(self) -> Path:
        """The root of the file log."""
        return self.directory / "log"


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


def results(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, ours: str
) -> Table:
    """Return a table of each method's result; the row whose first cell is `ours` stands out."""
    table = Table(title=title)
    method, *others = headings
    table.add_column(method, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row, style="bold green" if row[0] == ours else None)
    return table
