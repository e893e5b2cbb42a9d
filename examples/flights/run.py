"""What a streaming query did, micro-batch by micro-batch."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from noted_time.client import position_from_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 0.05


class Count(NamedTuple):
    """One row of a result: flights that departed from `origin` in the hour up to `end` (Unix ms).

    `delay_hours` is that of Spark's own watermark, 0 with noted time.
    """

    delay_hours: int
    end: int
    origin: str
    flights: int


@dataclass(slots=True)
class Run:
    """The micro-batches of one query by their number.

    `given_out` is the result; `read` counts the rows read by each batch's end; `positions` says the
    same of the file log, for a query that reads it; `watermark` is the last one used, in ms; `told`
    is what Spark reported of them.
    """

    given_out: dict[int, list[Count]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    positions: dict[int, Mapping[int, int]] = field(default_factory=dict)
    watermark: int = 0
    told: list[dict[str, Any]] = field(default_factory=list, compare=False, repr=False)

    def take_progress(self, told: Iterable[dict[str, Any]]) -> None:
        """Take in what Spark tells of each batch, in the order of the batches."""
        self.told, read = list(told), 0
        for progress in self.told:
            number, source = progress["batchId"], progress["sources"][0]
            read += source["numInputRows"]
            self.read[number] = read
            self.watermark = max(self.watermark, unix_ms(progress["eventTime"]["watermark"]))
            if "segments" in source["endOffset"]:
                self.positions[number] = position_from_wire(source["endOffset"]["segments"])


def unix_ms(instant: str) -> int:
    """Return the Unix ms of an instant as Spark writes it.

    >>> unix_ms("1970-01-01T00:00:01.500Z")
    1500
    """
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def run_to_the_end(
    counts: DataFrame, checkpoint: Path, on_batch: Callable[[int], None] = lambda _: None
) -> Run:
    """Run the query over all that is there and return what it did.

    `counts` has the columns of `Count`. `on_batch` is told how many batches are done. The query's
    failure is raised, and it is stopped whatever happens.
    """
    run = Run()
    keep = partial(_keep, run, on_batch)
    with running(counts, checkpoint, keep, availableNow=True) as query:
        query.awaitTermination()
        run.take_progress(progress_of(query))
    return run


def run_until(watermark: int, counts: DataFrame, checkpoint: Path) -> Run:
    """Run the query live until a batch ran under this watermark in ms, else as `run_to_the_end`."""
    run = Run()
    with running(counts, checkpoint, partial(_keep, run, lambda _: None)) as query:
        while run.watermark < watermark and query.isActive:
            time.sleep(LOOK_S)
            if last := query.lastProgress:
                run.watermark = unix_ms(last.eventTime["watermark"])
        if not query.isActive:
            query.awaitTermination()  # which raises what it failed with
        run.take_progress(progress_of(query))
    return run


@contextmanager
def running(
    rows: DataFrame,
    checkpoint: Path,
    keep: Callable[[DataFrame, int], None],
    **trigger: Any,  # noqa: ANN401 - as Spark takes it
) -> Iterator[StreamingQuery]:
    """Run the query while the block lasts; `keep` gets each batch's rows and its number."""
    writer = rows.writeStream.outputMode("append").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()


def progress_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return what Spark tells of each batch, in the order of the batches."""
    return [json.loads(progress.json) for progress in query.recentProgress]


def _keep(run: Run, on_batch: Callable[[int], None], batch: DataFrame, number: int) -> None:
    run.given_out[number] = [Count(*row) for row in batch.collect()]
    on_batch(number + 1)
