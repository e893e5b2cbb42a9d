"""How a batch job reads a window of time exactly once it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noted_time.values import Time
from spark_integration.complete_source import CompleteSource, WindowQuery
from spark_integration.complete_window import OnMissing, complete_window
from spark_integration.sources import parallelism, reader_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_complete(  # noqa: PLR0913 - the options of a source; all but five are named
    spark: SparkSession,
    root: str | Path,
    stream: str,
    start: Time,
    end: Time,
    *,
    controller_url: str,
    event_time: str,
    token: str | None = None,
    domain: str | None = None,
    timeout: float = 0.0,
    own_segments: bool = False,
    columns: Sequence[str] | None = None,
    schema: StructType | str | None = None,
    cores: int | None = None,
    missing: OnMissing = "warn",
    late: OnMissing = "warn",
) -> DataFrame:
    """Return the events with `start` <= time < `end` of a stream's file log, once it is complete.

    They are those that lie below the cut of the first mark with a lower at or above `end`. So reads
    of consecutive windows return each event once; an event that was written later is in none.
    `start` and `end` are Unix ms or aware `datetime`s.

    Only files whose statistics allow for such times are read. With `own_segments`, which says that
    no two writers ever append to one segment, files below the start cut are not opened at all; that
    cut is known if all writers declare their largest event times, as our clients do.

    The watermark may have passed the window without a writer that timed out, returned late or was
    removed, so rows of it may be missing: `missing="warn"` logs its name, and "fail" raises
    `WritersMissing`. Rows of the window that were written below the watermark are not read either:
    `late` decides likewise about those that their writers reported, and "fail" raises `RowsLate`.

    The other arguments are those of `read_noted_log`; `event_time` is read whatever `columns` are.

    The controller is asked before this returns, by the process that calls: raises `NotCompleteYet`
    if the window is not complete within `timeout` seconds, `UnknownStream`, `UnknownDomain`,
    `NotAllowed`, `Unreachable`, and `Rejected` for a window that is empty or that Spark cannot
    express. The read itself fails with `Rejected` if rows of the window were deleted, and with
    `UnreadableFile`.
    """
    window = complete_window(
        stream,
        start,
        end,
        controller_url=controller_url,
        event_time=event_time,
        token=token,
        domain=domain,
        timeout=timeout,
        missing=missing,
        late=late,
    )
    query = WindowQuery(
        root=str(root),
        stream=stream,
        event_time=event_time,
        start=window.start,
        end=window.end,
        from_cut=window.from_cut.offsets,
        to_cut=window.to_cut.offsets,
        own_segments=own_segments,
        columns=tuple(dict.fromkeys((*columns, event_time))) if columns else (),
        cores=cores or parallelism(spark),
    )
    reader = reader_for(spark, spark.read, CompleteSource, query)
    return (reader if schema is None else reader.schema(schema)).load()
