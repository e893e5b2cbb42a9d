"""How a query reads the file log with an exact watermark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from noted_time.settings import checked_name
from spark_integration.log_rows import with_mark_time
from spark_integration.log_source import OPTION, LogQuery, LogSource
from spark_integration.options import TOKEN
from spark_integration.watermark import events_of_scan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_noted_log(  # noqa: PLR0913 - the options of a source; all but three are named
    spark: SparkSession,
    root: str | Path,
    stream: str,
    *,
    controller_url: str,
    event_time: str,
    token: str | None = None,
    key: str | None = None,
    strict: bool = True,
    max_rows_per_trigger: int | None = None,
    columns: Sequence[str] | None = None,
    schema: StructType | None = None,
    cores: int | None = None,
    remember_ms: int = 0,
) -> DataFrame:
    """Return the events of a stream's file log, with a watermark that the writers vouch for.

    `root` holds the log in the layout of `noted_time.file_log`, and is read on the driver and the
    workers; `key` is the time domain that `event_time` belongs to. The event time arrives as a
    timestamp: integers in the log count as Unix ms, timestamps without a zone as UTC.

    The watermark is the lower of the last mark whose cut the query has read. Spark closes a window
    whose end is at or below the watermark, but drops a single row whose time is. So `strict`, the
    safe one, stays 1 ms below the lower: nothing is lost to joins and deduplication either, and a
    window that ends at the lower itself waits for the next mark. `strict=False` is exact for
    windowed aggregations, and for them alone.

    `token` is that of a reader. It is in no plan, checkpoint or task, but in the driver's memory;
    by default it is the one in the variable NOTED_TIME_TOKEN of the environment that the driver was
    started in.

    `columns` are those that are read, all by default: Spark does not tell a Python source which
    ones a query needs. `schema` is that of the events, by default that of the log's first file.
    `cores` is how many tasks a large micro-batch is split into, by default one a core of this
    machine. `remember_ms` is how long after its time `dropDuplicatesWithinWatermark` knows an
    event.

    Raises `InvalidName` for the stream; the query fails with `Rejected` where the controller knows
    no such stream or key at its start, and with `UnreadableFile` for a file that is truncated or
    foreign. A controller that is away lets the query go on, and its watermark stand.
    """
    query = LogQuery(
        root=str(root),
        stream=checked_name("stream", stream),
        controller_url=controller_url,
        event_time=event_time,
        key=key,
        columns=tuple(columns or ()),
        strict=strict,
        max_rows=max_rows_per_trigger or 0,
        cores=cores or os.cpu_count() or 1,
    )
    spark.dataSource.register(LogSource)
    reader = spark.readStream.format(LogSource.name()).option(OPTION, query.to_option())
    if token is not None:
        reader = reader.option(TOKEN, token)
    if schema is not None:
        reader = reader.schema(with_mark_time(schema))
    return events_of_scan(reader.load(), event_time, remember_ms)
