"""What a streaming query has given out, batch by batch, as a sink that never doubles anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery


class QueryOutput:
    """The rows of each batch; a batch that is run again takes the place of its first run."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """All rows given out so far, sorted."""
        return sorted(tuple(row) for batch in self.batches.values() for row in batch)

    def start(self, events: DataFrame, *, available_now: bool = False) -> StreamingQuery:
        """Start, or start again from the checkpoint."""
        writer = events.writeStream.outputMode("append").foreachBatch(self._take)
        if available_now:
            writer = writer.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def catch_up(self, events: DataFrame) -> None:
        """Read all that is there now, and stop."""
        query = self.start(events, available_now=True)
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = batch.collect()
