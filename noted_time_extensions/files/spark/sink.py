"""Writes the output of a query as a stream for other queries.

After a micro-batch with watermark W, no later batch emits a window that ends at or below W. So the
sink appends the rows, then notes W. The rows' file has the batch's id, so a repeated batch only
notes W.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
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
from noted_time.extending import check_least, validate_name
from noted_time_extensions.files.batches import Batch
from noted_time_extensions.files.log_writer import SegmentLogWriter
from spark_integration.extending import LAST_MS, Picklable, QueryProgress
from writer_client import WriterClient
from writer_client.extending import EXIT_WAIT_S, end_client

if TYPE_CHECKING:
    import pyarrow as pa

JOIN_S = 10.0
NO_WAIT_S = 0.0

log = logging.getLogger("noted_time.spark")

AHEAD_WARNING = (
    "stream %s: the end of its last rows is not noted, because it exceeds max_time_ahead_ms (%s). "
    "Readers' watermarks pass these rows once the stream is sealed"
)


class CannotPickle(Rejected, PickleError):
    """A sink cannot be sent to a Connect server."""


class NotedLogSink(Picklable):
    """Appends the output of a query to a file log and notes its watermark, for `foreachBatch`.

    The query must have the output mode `append`. Each batch is appended once, as one file through
    the driver's memory. Then its watermark is noted, even without rows.

    `client` is the writer of the derived stream: a `WriterClient`, or a function that returns one,
    such as ``partial(WriterClient, stream, writer, controller=url)``. No other program may use its
    name.

    - With Spark Connect, pass a function without a token, and set NOTED_TIME_TOKEN in the server's
      environment.
    - In a driver, all runs of the query share the function's client until `close()` or the end of
      the process.

    The first batch joins the writer to the stream. If the controller does not answer within ten
    seconds, it fails with `Unreachable`. Later batches do not wait; after a refused note, the next
    batch fails.

    `time_of` is the event time of the appended rows. A field of a struct, such as `window.end`, is
    copied into a new column (`window_end`).

    After a watermark W, the query must emit only rows with a time at or above W. Ends of windows
    satisfy this, but not their starts, which are refused. A join with a time interval may emit rows
    below W by the interval: pass it as `delay_ms`. Rows below a noted time are reported as late.

    After all of a sealed stream, the sink notes the end of the last rows and finishes its writer.
    With `seal`, it also seals the derived stream, if that has no other writers.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option
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
        ignore: Sequence[str] = (),
    ) -> None:
        """Append to `segment` of the log of `stream` under `root`, from the first batch on.

        `root` is a path or a URL, such as ``s3://lake/topics``.

        `checkpoint_location` is the query's `checkpointLocation`, a path or a URI. `domain` is the
        time domain of `time_of`, if the stream has several. `seal` needs a client with an `admin`
        token. `ignore` has patterns of foreign names in the log to leave out, such as ``*.json``.
        Raises `InvalidName`, or `Rejected` for a negative delay or a client of another stream.
        """
        check_least("delay_ms", delay_ms, 0)
        self._root = root
        self._stream = validate_name("stream", stream)
        self._client_or_factory = client if callable(client) else _check_client(client, stream)
        self._time_of = time_of
        self._column = time_of.replace(".", "_")
        self._progress = QueryProgress(checkpoint_location)
        self._segment = segment
        self._domain = domain
        self._delay_ms = delay_ms
        self._ignore = tuple(ignore)
        self._is_sealing = seal

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Append the batch and note its watermark.

        Raises `InvalidNote` if the watermark is below the writer's last note: a query with a new
        checkpoint needs a new stream.
        """
        watermark = self._progress.read_watermark(batch_id)
        rows = self._convert_rows(batch)
        batch_name = Batch(self._query_id, batch_id)
        if watermark == LAST_MS:
            self._end(rows, batch_name)
            return
        self._log.append_once(rows, batch_name, self._segment)
        if watermark is not None:
            self._log.note_time(watermark - self._delay_ms, domain=self._domain)
        with suppress(Unreachable):  # the client sends the note later
            self._client.flush(NO_WAIT_S)

    def __getstate__(self) -> dict[str, Any]:
        client = self._client_or_factory
        if isinstance(client, WriterClient):
            raise CannotPickle(
                "a Connect server cannot use the client of this process: give NotedLogSink a "
                f'function that returns one, partial(WriterClient, "{self._stream}", '
                '"…", controller="http://…")'
            )
        if isinstance(client, partial) and client.keywords.get("token") is not None:
            raise CannotPickle(
                "the token would be part of the query: leave it out, and set NOTED_TIME_TOKEN in "
                "the environment of the Connect server"
            )
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)}

    def close(self) -> None:
        """Close the client that the sink created, if any; a later batch creates another one."""
        created_client = vars(self).pop("_client", None)
        vars(self).pop("_log", None)
        if created_client is not None and created_client is not self._client_or_factory:
            created_client.close()

    @cached_property
    def _client(self) -> WriterClient:
        if isinstance(self._client_or_factory, WriterClient):
            return self._client_or_factory
        client = _check_client(self._client_or_factory(), self._stream)
        _end_at_sigterm(client)
        return client

    @cached_property
    def _query_id(self) -> str:
        return self._progress.read_query_id()

    @cached_property
    def _log(self) -> SegmentLogWriter:
        self._client.join()  # marks then wait for the writer's first rows
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
            ignore=self._ignore,
        )

    def _end(self, rows: pa.Table, batch: Batch) -> None:
        try:
            self._log.append_once(rows, batch, self._segment)
            self._finish()
        except InvalidNote as refusal:
            is_appended = not rows.num_rows or self._open_log(None).holds(batch)
            if refusal.status == "sealed" and is_appended:  # by an earlier run
                return
            raise
        if self._is_sealing and not self._client.seal():
            log.warning("stream %s is not sealed, because it has other writers", self._stream)

    def _finish(self) -> None:
        max_time = self._log.max_time(self._domain)
        noted_time = self._client.late_below(self._domain)
        if max_time is not None and (noted_time is None or max_time >= noted_time):
            self._log.note_time(max_time + 1, domain=self._domain)
        try:
            self._client.finish(timeout=JOIN_S)
        except InvalidNote as refusal:
            self._finish_without_time(refusal)

    def _finish_without_time(self, refusal: InvalidNote) -> None:
        """Finish without a time if the last windows end in the future."""
        while refusal.status == "too_far_ahead":
            log.warning(AHEAD_WARNING, self._stream, refusal)
            try:
                self._client.flush(JOIN_S)
            except InvalidNote as other_refusal:
                refusal = other_refusal
            else:
                return
        raise refusal

    def _convert_rows(self, batch: DataFrame) -> pa.Table:
        struct, _, field = self._time_of.rpartition(".")
        if struct:
            self._check(batch, struct, field)
            batch = batch.withColumn(self._column, F.col(self._time_of))
        return batch.toArrow().cast(to_arrow_schema(batch.schema, timezone="UTC"))

    def _check(self, batch: DataFrame, struct: str, field: str) -> None:
        if self._column in batch.columns:
            raise Rejected(f"column {self._column} is taken: rename it, or pass it as time_of")
        kind = batch.select(struct).schema[0].dataType
        if field == "start" and isinstance(kind, StructType) and kind.names == ["start", "end"]:
            raise Rejected(
                f"time_of={self._time_of!r} is the start of a window, which may be below the "
                f"watermark: use {struct}.end, or window_time({struct})"
            )


def _check_client(client: object, stream: str) -> WriterClient:
    if not isinstance(client, WriterClient):
        raise Rejected(f"client must be a WriterClient, or a function that returns one: {client!r}")
    if client.stream != stream:
        raise Rejected(f"the client writes to stream {client.stream!r}, not {stream!r} of the sink")
    return client


def _end_at_sigterm(client: WriterClient) -> None:
    """Send the client's last notes when SIGTERM ends the process, as Spark Connect does.

    Raises the signal again, because gRPC may hang if Python exits during a call.
    """

    def end(number: int, _: object) -> None:
        end_client(client, EXIT_WAIT_S)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    is_main = threading.current_thread() is threading.main_thread()  # not in a driver
    if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
