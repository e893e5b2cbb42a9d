"""How a query reads the file log with an exact watermark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from noted_time.settings import checked_name
from spark_integration.log_rows import with_mark_time
from spark_integration.log_source import OPTION, LogQuery, LogSource
from spark_integration.watermark import watermarked

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
    key: str | None = None,
    strict: bool = True,
    max_rows_per_trigger: int | None = None,
    columns: Sequence[str] | None = None,
    schema: StructType | None = None,
    cores: int | None = None,
) -> DataFrame:
    """Return the events of a stream's file log, with a watermark that the writers vouch for."""
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
    if schema is not None:
        reader = reader.schema(with_mark_time(schema))
    return watermarked(reader.load(), event_time)
