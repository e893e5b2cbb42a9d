"""The output of a streaming query, batch by batch."""

from itertools import chain
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration.marks.offset import NotedOffset
from tests.support.offset_log import forget_commit, read_plan
from tests.support.spark_sessions import wait_for_end
from tools.trials.starting import start_query
from tools.trials.waiting import eventually


class QueryOutput:
    """The rows of each batch; a repeated batch replaces its first run."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}

    @property
    def rows(self) -> list[tuple[object, ...]]:
        rows = chain.from_iterable(self.batches.values())
        return sorted(tuple(row) for row in rows)

    def will_have(self, *rows: tuple[object, ...]) -> bool:
        """Wait until the rows are these."""
        return eventually(lambda: self.rows, list(rows))

    def start(self, events: DataFrame, *, available_now: bool = False) -> StreamingQuery:
        """Start, or restart from the checkpoint."""
        writer = events.writeStream.outputMode("append").foreachBatch(self._take)
        if available_now:
            writer = writer.trigger(availableNow=True)
        return start_query(writer.option("checkpointLocation", str(self.checkpoint)).start)

    def catch_up(self, events: DataFrame) -> None:
        """Read everything, and stop."""
        query = self.start(events, available_now=True)
        try:
            wait_for_end(query)
        finally:
            query.stop()

    def last_lower(self) -> int | None:
        """Return the lower that the query's first source stated last."""
        return NotedOffset.from_json(read_plan(self.checkpoint)[1]).least.lower

    def forget_commit(self) -> None:
        """Make the last batch planned but not committed, as after a crash."""
        forget_commit(self.checkpoint)

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = batch.collect()
