"""Reads the file log with an exact watermark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from noted_time import Rejected
from noted_time.extending import Transport, locate_root
from noted_time_extensions.files.spark.log_rows import build_scan_schema
from noted_time_extensions.files.spark.log_source import LogSource
from noted_time_extensions.files.spark.options import Option
from noted_time_extensions.files.spark.query import OPTION_FIELDS, LogQuery
from spark_integration import Noted, WatermarkPolicy
from spark_integration.extending import (
    SAFE_POLICY,
    build_options,
    build_source_name,
    check_known,
    choose_options,
    count_cores,
    create_reader,
    select_scan_events,
    set_reader_name,
)


def read_noted_log(  # noqa: PLR0913 - options are keyword-only
    spark: SparkSession,
    root: str | Path,
    noted: Noted,
    *options: Option,
    event_time: str,
    domain: str | None = None,
    policy: WatermarkPolicy = SAFE_POLICY,
    ignore: Sequence[str] = (),
) -> DataFrame:
    """Return the events of a stream's file log, with a watermark that the writers vouch for.

    `root` contains the log in the layout of `noted_time_extensions.files.layout`. It is a path or a
    URL, such as ``s3://lake/topics``. Driver and workers read it, with credentials from their
    environments. A relative path is of the driver's directory. With Spark Connect it is refused.

    `event_time` is the column of the event time, in the time domain `domain`. It is read as the
    stream states, or with the zone, unit and format of `Columns`. If neither says how to read a
    column without a zone or of numbers, a query with a new checkpoint fails with `Rejected`.

    `ignore` has patterns of foreign names to leave out, such as ``*.json``.

    `options` are at most one of each type: `ReadRange`, `Columns`, `Batches`, `CatchUp` and
    `Ingestion`.

    ``domain="ingestion"`` reads the marks of an observer (`writer_client.IngestionNoter`). It needs
    an `Ingestion`, which sets how far `event_time` may lag behind them.

    Raises `InvalidName`, `UnknownStream`, `UnknownDomain`, `NotAllowed` and `UnexpectedAnswer` for
    the stream, and `ImplausibleTime` for an `end_at` in seconds. Raises `Rejected` for an invalid
    URL, column, schema or range, and for conflicting options. With Spark Connect, log and
    controller are checked when the query starts.

    The query fails with `UnreadableFile` for a truncated file, and for a name that may have rows
    and stays for ten seconds. It fails with `Rejected`
    if the marks at `end_at` are deleted, or the checkpoint has another `end_at`. So it does if a
    sealed stream was recreated after its end was read, or if an object that it read was replaced
    (`Recreated`). If the store does not answer, it fails with `Unreachable`. While the controller
    is unreachable, the query reads on, up to the last known cut with `end_at`, and its watermark
    does not advance.
    """
    policy.check_partial("read_noted_log")
    option_by_field = choose_options(options, OPTION_FIELDS)
    is_driver = isinstance(spark, SparkSession)
    query = LogQuery(
        root=locate_root(root, is_read_here=is_driver),
        stream=noted.name,
        controller_url=noted.controller,
        event_time=event_time,
        domain=domain,
        policy=policy,
        ignore=tuple(ignore),
        **option_by_field,
    )
    with closing(Transport(noted.controller, token=noted.token)) as transport:
        if is_driver:
            check_known(transport, query.stream, query.domain, query.range.end_at)
    events = _parse_schema(query.columns.schema)
    schema = None
    if is_driver or events is not None:
        schema = build_scan_schema(query, events)
    if query.batches.cores is None:
        query = replace(query, batches=replace(query.batches, cores=count_cores(spark)))
    source_name = build_source_name("log", [query.stream], domain)
    reader = set_reader_name(spark, spark.readStream, source_name)
    reader = create_reader(spark, reader, LogSource, build_options(query, noted.token))
    if schema is not None:
        reader = reader.schema(schema)
    return select_scan_events(reader.load(), query.event_time, policy.dedup_retention_ms)


def _parse_schema(schema: StructType | str | None) -> StructType | None:
    parsed_schema = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if parsed_schema is None or isinstance(parsed_schema, StructType):
        return parsed_schema
    raise Rejected(f'schema {schema!r} has no columns: use "departure timestamp, origin string"')
