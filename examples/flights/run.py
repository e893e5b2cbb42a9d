"""What a streaming query did, micro-batch by micro-batch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from noted_time.wire import position_from_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame


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
    same of the file log, for a query that reads it; `state_rows` are those that the first stateful
    operator keeps at a batch's end; `watermark` is the last one used, in ms.
    """

    given_out: dict[int, list[Count]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    positions: dict[int, Mapping[int, int]] = field(default_factory=dict)
    state_rows: dict[int, int] = field(default_factory=dict)
    watermark: int = 0

    def take_progress(self, told: Iterable[dict[str, Any]]) -> None:
        """Take in what Spark tells of each batch, in the order of the batches."""
        read = 0
        for progress in told:
            number, source = progress["batchId"], progress["sources"][0]
            read += source["numInputRows"]
            self.read[number] = read
            for operator in progress["stateOperators"][:1]:
                self.state_rows[number] = operator["numRowsTotal"]
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

    def keep(batch: DataFrame, number: int) -> None:
        run.given_out[number] = [Count(*row) for row in batch.collect()]
        on_batch(number + 1)

    writer = counts.writeStream.outputMode("append").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    try:
        query.awaitTermination()
        run.take_progress(json.loads(progress.json) for progress in query.recentProgress)
    finally:
        query.stop()
    return run
