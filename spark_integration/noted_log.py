"""How a query reads the file log with an exact watermark."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from noted_time import Rejected
from noted_time.client.transport import Transport
from spark_integration.log_query import LogQuery
from spark_integration.log_rows import scan_schema
from spark_integration.log_source import LogSource
from spark_integration.marks_feed import check_known
from spark_integration.options import Option
from spark_integration.sources import parallelism, reader_for
from spark_integration.watermark import events_of_scan


def read_noted_log(  # noqa: PLR0913 - what there is to ask for; all but three are named
    spark: SparkSession,
    root: str | Path,
    stream: str,
    *options: Option,
    controller_url: str,
    event_time: str | None = None,
    domain: str | None = None,
    token: str | None = None,
    strict: bool = True,
    dedup_retention_ms: int = 0,
) -> DataFrame:
    """Return the events of a stream's file log, with a watermark that the writers vouch for.

    `root` holds the log in the layout of `noted_time.wing.file_log`; driver and workers read it.
    `event_time` is the column of the event time, and `domain` the time domain that it belongs to.
    It arrives as a timestamp: integers in the log are read as Unix ms, timestamps without a zone as
    UTC.

    The watermark is the lower of the last mark whose cut the query has read. Spark closes a window
    whose end is at or below the watermark, but it also drops a single row whose time is. So by
    default the watermark is 1 ms below the lower (`strict`): joins and deduplication lose nothing,
    and a window that ends at the lower itself stays open until the next mark. `strict=False` makes
    the watermark the lower, which is exact for windowed aggregations, and only for them.

    Options follow the stream as values, each kind at most once: a `ReadRange` of event times, the
    `Columns`, the size and order of `Batches`, other batches to `CatchUp`, and the alignment to
    `Align` with. ``domain="ingestion"`` reads the marks of an observer
    (`writer_client.IngestionNoter`) and adds the column `_ingested`: 1 ms before the lower of the
    first mark whose cut lies above the row. Rows beyond the last cut wait. The watermark is that of
    `_ingested`, and `event_time` is left out, unless an `Ingestion` sets how far it may lag.

    `token` needs the scope `read`; by default it is the variable NOTED_TIME_TOKEN of the
    environment in which the driver was started. It stays in the driver's memory and enters no plan,
    checkpoint or task. `dedup_retention_ms` is how long after its event time
    `dropDuplicatesWithinWatermark` remembers an event.

    Raises `InvalidName` for the stream; `Rejected` for an invalid URL, column or schema, a range
    that Spark cannot express, and options that cannot be combined; `ImplausibleTime` for an
    `end_at` in seconds; `UnknownStream`, `UnknownDomain` and `NotAllowed` as the controller
    answers, and `UnexpectedAnswer` if something else does. (With Spark Connect the server looks for
    log and controller, once the query starts.) The query fails with `Rejected` if the controller
    does not know the stream or the domain when it starts, or no longer keeps the marks at `end_at`;
    if the checkpoint has another `end_at`; or if the stream was deleted and recreated after it was
    sealed and read to its end. It fails with `UnreadableFile` for a file that is truncated or
    foreign. While the controller is unreachable, the query continues to read, with `end_at` up to
    the last cut that it knows, and its watermark does not advance.
    """
    query = LogQuery.asked(
        root,
        stream,
        options,
        controller_url=controller_url,
        event_time=event_time,
        domain=domain,
        strict=strict,
    )
    is_here = isinstance(
        spark, SparkSession
    )  # otherwise the Connect server looks for log and controller
    with closing(Transport(controller_url, token=token)) as transport:
        if is_here:
            of = (query.stream, query.domain, query.event_time)
            known = check_known(transport, *of, query.range.end_at)
            query = replace(query, is_only=known is not None and known.is_only)
    events = _parsed(query.columns.schema)
    schema = scan_schema(query, events) if is_here or events is not None else None
    if query.batches.cores is None:
        query = replace(query, batches=replace(query.batches, cores=parallelism(spark)))
    reader = reader_for(spark, spark.readStream, LogSource, query, token)
    if schema is not None:
        reader = reader.schema(schema)
    return events_of_scan(reader.load(), query.event_time, dedup_retention_ms)


def _parsed(schema: StructType | str | None) -> StructType | None:
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if found is None or isinstance(found, StructType):
        return found
    raise Rejected(f'schema {schema!r} names no columns: "departure timestamp, origin string"')
