"""How the output of a query becomes a stream of its own, with times that further queries trust.

In micro-batch N an operator emits what the watermark W of the batch has passed, and drops later
rows below it. So once the output of N is in the log, no later one emits a window that ends at or
below W, and that is what the sink notes: the rows first, then W. A batch that is run again finds
its rows in the log, by the name of the batch in the file, and only notes.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from noted_time import Rejected, Unreachable
from noted_time.settings import checked_name
from spark_integration.query_progress import PlannedBatches
from writer_client import Batch, SegmentLogWriter

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from writer_client import WriterClient

JOIN_S = 10.0
AT_ONCE_S = 0.0


class NotedLogSink:
    """Appends the output of a query to a file log and notes its watermark, for `foreachBatch`.

    The query has the output mode `append`. Batch N is appended once, however often it is run; then,
    also where it has no rows, the watermark is noted that it ran under. The rows travel through the
    driver's memory, as one file a batch.

    `client` is the writer of the derived stream, and no other program notes under its name. It
    joins with the first batch, which waits for the controller and fails with `Unreachable` after
    ten seconds. After that notes wait for nobody: while the controller is away the query goes on,
    and the last note is sent when it is back. What the controller refuses fails the next batch.

    `time_of` is the event time of what is appended. A field of a struct, as in `window.end`,
    becomes a column with an underscore in the dot's place (`window_end`), beside the others.

    What the query emits after the watermark W has a time above or at it: true of the ends of
    windows and of rows that an operator lets through, not of the starts of windows, which are
    refused. A join with a time interval may emit rows as much as its interval below W: `delay_ms`
    is then subtracted. Rows below a noted time are counted and told as late, as by any writer.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        root: str | Path,
        stream: str,
        client: WriterClient,
        time_of: str = "window.end",
        *,
        checkpoint_location: str,
        segment: int = 0,
        domain: str | None = None,
        delay_ms: int = 0,
    ) -> None:
        """Append to `segment` of the log of `stream` under `root`; makes nothing yet.

        `checkpoint_location` is the `checkpointLocation` with which the query is started, a path or
        a URI: it knows the query's id and the watermark of each batch. `domain` is the time domain
        of `time_of`, where the stream has several. Raises `InvalidName`, or `Rejected` for a
        negative delay.
        """
        if delay_ms < 0:
            raise Rejected(f"delay_ms must be 0 or more, not {delay_ms}")
        self._root = root
        self._stream = checked_name("stream", stream)
        self._client = client
        self._time_of = time_of
        self._column = time_of.replace(".", "_")
        self._planned = PlannedBatches(checkpoint_location)
        self._segment = segment
        self._domain = domain
        self._delay_ms = delay_ms

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Append the batch and note its watermark.

        Raises `Rejected` where `checkpoint_location` is not the query's, where the rows have no
        such time or are of another schema than the log's, and what the controller refused;
        `InvalidNote` where the watermark is below what the writer noted before: a query with a new
        checkpoint needs a new stream.
        """
        watermark = self._planned.watermark(batch_id)
        rows = self._rows(batch)
        self._log.append_once(rows, Batch(self._query_id, batch_id), self._segment)
        if watermark is not None:
            self._log.note_time(watermark - self._delay_ms, domain=self._domain)
        with suppress(Unreachable):  # the note is kept, and sent when the controller is back
            self._client.flush(AT_ONCE_S)

    @cached_property
    def _query_id(self) -> str:
        return self._planned.query_id()

    @cached_property
    def _log(self) -> SegmentLogWriter:
        """The writer, which is a member of the stream before it appends for the first time."""
        self._client.join()
        self._client.flush(JOIN_S)
        column = self._column
        return SegmentLogWriter(
            self._root,
            self._stream,
            segments=(self._segment,),
            client=self._client,
            event_time=column if self._domain is None else {self._domain: column},
        )

    def _rows(self, batch: DataFrame) -> pa.Table:
        """Return the rows with their event time in a column; timestamps are in UTC."""
        struct, _, field = self._time_of.rpartition(".")
        if struct:
            self._check(batch, struct, field)
            batch = batch.withColumn(self._column, F.col(self._time_of))
        return batch.toArrow().cast(to_arrow_schema(batch.schema, timezone="UTC"))

    def _check(self, batch: DataFrame, struct: str, field: str) -> None:
        if self._column in batch.columns:
            raise Rejected(f"column {self._column} is taken: rename it, and name the time by it")
        kind = batch.select(struct).schema[0].dataType
        if field == "start" and isinstance(kind, StructType) and kind.names == ["start", "end"]:
            raise Rejected(
                f"{self._time_of} is the start of a window: one that ends above the watermark may "
                f"still start below it; use {struct}.end, or window_time({struct})"
            )
