"""How the output of a query becomes a stream of its own, with times that other queries trust.

In micro-batch N an operator emits what the watermark W of the batch has passed, and drops later
rows below it. So once the output of N is in the log, no later one emits a window that ends at or
below W. So the sink appends the rows first, then notes W. A batch that is run again finds its rows
in the log, by the name of the batch in the file, and only notes.

At the end of a sealed source the watermark goes to the end of Spark's time, which is not the time
of any row. The rows of that batch are the last ones: what is noted is the end of them, and the
writer is done.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from pickle import PickleError
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from noted_time import InvalidNote, Rejected, Unreachable
from noted_time.values import check_least, validate_name
from spark_integration.checkpoint.query_progress import QueryProgress
from spark_integration.marks.watermark import LAST_MS
from spark_integration.session.pickling import Picklable
from writer_client import Batch, SegmentLogWriter, WriterClient
from writer_client.at_exit import EXIT_WAIT_S

if TYPE_CHECKING:
    import pyarrow as pa

JOIN_S = 10.0
NO_WAIT_S = 0.0

log = logging.getLogger("noted_time.spark")

AHEAD_WARNING = (
    "stream %s: its last rows end further ahead than its max_time_ahead_ms allows to note (%s); "
    "readers get past them when it is sealed"
)


class CannotTravel(Rejected, PickleError):
    """A sink cannot be sent to a Connect server. Spark passes on a `PickleError` as it is."""


class NotedLogSink(Picklable):
    """Appends the output of a query to a file log and notes its watermark, for `foreachBatch`.

    The query has the output mode `append`. Batch N is appended once, however often it is run; then,
    even if it has no rows, the watermark is noted that it ran under. The rows travel through the
    driver's memory, as one file a batch.

    `client` is the writer of the derived stream, and no other program notes under its name: a
    `WriterClient`, or a function that returns one, ``partial(WriterClient, url, stream, writer)``.
    With Spark Connect it is such a function, and without a token: the sink travels to the server,
    and calls it in the process that runs the batches, whose environment has NOTED_TIME_TOKEN. That
    process ends with the query, and sends before what was noted. In a driver, the client that the
    function returned serves each run of the query until `close()` or the end of the process. All
    of these leave the writer a member.

    The writer joins with the first batch, which waits for the controller and fails with
    `Unreachable` after ten seconds. After that no batch waits for the controller: while it is
    unreachable the query continues, and the last note is sent when it is back. What the controller
    refuses fails the next batch.

    `time_of` is the event time of what is appended. A field of a struct, as in `window.end`,
    becomes a column with an underscore in the dot's place (`window_end`), beside the others.

    What the query emits after the watermark W has a time above or at it: true of the ends of
    windows and of rows that an operator lets through, not of the starts of windows, which are
    refused. A join with a time interval may emit rows as much as its interval below W: `delay_ms`
    is then subtracted. Rows below a noted time are counted and reported as late, as by any writer.

    Once the query has read all of a sealed stream, it gives out its last windows in a last batch.
    The sink notes the end of these rows and finishes its writer, and with `seal` it seals the
    derived stream too, unless that has other writers: so its readers close their last windows as
    well. This batch waits for the controller, and fails with `Unreachable`; started again, the
    query does it again, whatever was done before.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        root: str | Path,
        stream: str,
        client: WriterClient | Callable[[], WriterClient],
        time_of: str = "window.end",
        *,
        checkpoint_location: str,
        segment: int = 0,
        domain: str | None = None,
        delay_ms: int = 0,
        seal: bool = False,
    ) -> None:
        """Append to `segment` of the log of `stream` under `root`; creates nothing yet.

        `checkpoint_location` is the `checkpointLocation` with which the query is started, a path or
        a URI: it knows the query's id and the watermark of each batch. `domain` is the time domain
        of `time_of`, if the stream has several. `seal` needs a client with the right to
        administer. Raises `InvalidName`, or `Rejected` for a negative delay and for a client of
        another stream; that of a function is checked with the first batch.
        """
        check_least("delay_ms", delay_ms, 0)
        self._root = root
        self._stream = validate_name("stream", stream)
        self._given = client if callable(client) else _check_client(client, stream)
        self._time_of = time_of
        self._column = time_of.replace(".", "_")
        self._planned = QueryProgress(checkpoint_location)
        self._segment = segment
        self._domain = domain
        self._delay_ms = delay_ms
        self._seals = seal

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Append the batch and note its watermark.

        Raises `Rejected` if `checkpoint_location` is not the query's, if the rows have no
        such time or are of another schema than the log's, and what the controller refused;
        `InvalidNote` if the watermark is below what the writer noted before: a query with a new
        checkpoint needs a new stream.
        """
        watermark = self._planned.read_watermark(batch_id)
        rows, named = self._convert_rows(batch), Batch(self._query_id, batch_id)
        if watermark == LAST_MS:
            self._end(rows, named)
            return
        self._log.append_once(rows, named, self._segment)
        if watermark is not None:
            self._log.note_time(watermark - self._delay_ms, domain=self._domain)
        with suppress(Unreachable):  # the note is kept, and sent when the controller is back
            self._client.flush(NO_WAIT_S)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the sink was given, and not what it made of that."""
        given, writer = self._given, 'partial(WriterClient, "http://…", "{}", "…")'
        if isinstance(given, WriterClient):
            raise CannotTravel(
                "a Connect server cannot use the client of this process: give NotedLogSink a "
                f"function that returns one, {writer.format(self._stream)}"
            )
        if isinstance(given, partial) and given.keywords.get("token") is not None:
            raise CannotTravel(
                "the token would be part of the query: leave it out, and set NOTED_TIME_TOKEN in "
                "the environment of the Connect server"
            )
        return {name: kept for name, kept in vars(self).items() if not hasattr(type(self), name)}

    def close(self) -> None:
        """End the client that the sink made, if it did; a later batch makes another one.

        The writer stays a member, as `WriterClient.close` says, and it raises what that raises.
        """
        made = vars(self).pop("_client", None)
        vars(self).pop("_log", None)
        if made is not None and made is not self._given:
            made.close()

    @cached_property
    def _client(self) -> WriterClient:
        if isinstance(self._given, WriterClient):
            return self._given
        made = _check_client(self._given(), self._stream)
        _end_at_sigterm(made)
        return made

    @cached_property
    def _query_id(self) -> str:
        return self._planned.read_query_id()

    @cached_property
    def _log(self) -> SegmentLogWriter:
        """The writer, which is a member of the stream before it appends for the first time."""
        self._client.join()
        self._client.flush(JOIN_S)
        return self._open_log(self._client)

    def _open_log(self, client: WriterClient | None) -> SegmentLogWriter:
        column = self._column
        return SegmentLogWriter(
            self._root,
            self._stream,
            segments=(self._segment,),
            client=client,
            event_time=column if self._domain is None else {self._domain: column},
        )

    def _end(self, rows: pa.Table, batch: Batch) -> None:
        """Append the last rows, note their end, and leave; an earlier run may have sealed."""
        try:
            self._log.append_once(rows, batch, self._segment)
            self._finish()
        except InvalidNote as refused:
            is_there = not rows.num_rows or self._open_log(None).holds(batch)
            if refused.status == "sealed" and is_there:
                return
            raise
        if self._seals and not self._client.seal():
            log.warning("stream %s has other writers, and is not sealed", self._stream)

    def _finish(self) -> None:
        largest, noted = self._log.max_time(self._domain), self._client.late_below(self._domain)
        if largest is not None and (noted is None or largest >= noted):
            self._log.note_time(largest + 1, domain=self._domain)
        try:
            self._client.finish(timeout=JOIN_S)
        except InvalidNote as refused:
            self._pass_over(refused)

    def _pass_over(self, refused: InvalidNote) -> None:
        """Finish without a time if windows end in the future, as those of the current day do."""
        while refused.status == "too_far_ahead":
            log.warning(AHEAD_WARNING, self._stream, refused)
            try:
                self._client.flush(JOIN_S)
            except InvalidNote as another:
                refused = another
            else:
                return
        raise refused

    def _convert_rows(self, batch: DataFrame) -> pa.Table:
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


def _check_client(client: object, stream: str) -> WriterClient:
    if not isinstance(client, WriterClient):
        raise Rejected(f"client is a WriterClient or a function that returns one, not {client!r}")
    if client.stream != stream:
        raise Rejected(f"the client writes {client.stream!r}, and the log is that of {stream!r}")
    return client


def _end_at_sigterm(client: WriterClient) -> None:
    """Have a client send what was noted before a process ends that runs batches for Connect.

    Spark closes its connection and sends SIGTERM, whichever comes first. The signal then ends the
    process as before: gRPC may hang if Python exits in the middle of a call.
    """

    def end(number: int, _: object) -> None:
        client.end(EXIT_WAIT_S)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    is_main = threading.current_thread() is threading.main_thread()  # in a driver it is another
    if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
