"""How a query reads the file log with an exact watermark."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from noted_time import Rejected, StreamSettings, UnexpectedAnswer, UnknownDomain, Unreachable
from noted_time.reading import check_time
from noted_time.values import checked_name
from reader_client.connection import Connection
from spark_integration.ingested import INGESTED, checked_unstamped, event_time_of
from spark_integration.late_rows import keeps_late
from spark_integration.log_query import OPTION, LogQuery
from spark_integration.log_rows import scan_schema
from spark_integration.log_source import LogSource
from spark_integration.options import TOKEN
from spark_integration.registration import registered
from spark_integration.sealing import checked_on_seal
from spark_integration.time_order import checked_order
from spark_integration.time_range import TimeRange
from spark_integration.watermark import events_of_scan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from noted_time import BacklogPolicy
    from noted_time.values import Time
    from spark_integration.ingested import Unstamped
    from spark_integration.sealing import OnSeal
    from spark_integration.time_order import Order


def read_noted_log(  # noqa: PLR0913 - the options of a source; all but three are named
    spark: SparkSession,
    root: str | Path,
    stream: str,
    *,
    controller_url: str,
    event_time: str | None = None,
    token: str | None = None,
    domain: str | None = None,
    start_at: Time | None = None,
    end_at: Time | None = None,
    strict: bool = True,
    max_rows_per_trigger: int | None = None,
    order: Order = "share",
    backlog: BacklogPolicy | None = None,
    backlog_rows_per_trigger: int | None = None,
    align: str | None = None,
    align_as: str | None = None,
    columns: Sequence[str] | None = None,
    schema: StructType | str | None = None,
    cores: int | None = None,
    dedup_retention_ms: int = 0,
    max_event_time_lag_ms: int | None = None,
    unstamped: Unstamped = "fail",
    late: Literal["drop", "keep"] = "drop",
    on_seal: OnSeal = "close",
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

    `start_at` and `end_at`, Unix ms or aware `datetime`s, ask for the events from the one to below
    the other, once each: those that `read_complete` returns. Either may be left out. With `end_at`
    nothing is read beyond the last mark's cut, nor beyond that of the first mark with a lower at or
    above `end_at`; there the watermark becomes `end_at`, and nothing follows. The checkpoint keeps
    where a query began: `start_at` counts for a new one, and `end_at` is not to change.

    `token` needs the scope `read`; by default it is the variable NOTED_TIME_TOKEN of the
    environment in which the driver was started. It stays in the driver's memory and enters no plan,
    checkpoint or task.

    `max_rows_per_trigger` is how many rows a micro-batch takes at most. Which ones says `order`:
    with `share` all segments give rows in proportion to what they have, and so reach their ends
    together; with `time` a batch ends at the cut of a mark, so that rows come nearly in the order
    of their times. The results are the same, see `docs/order.md`.

    `align` names an alignment: the query reads this log no further ahead of the alignment's slowest
    member than its drift and one mark. The source is its member `align_as`, by default the name of
    the stream. See `docs/alignment.md`.

    `columns` are the columns to read beside `event_time`, by default all: Spark does not tell a
    Python source which ones a query needs. `schema` is the schema of the events, a `StructType` or
    ``"departure timestamp, origin string"``, by default that of the log's first file. `cores` is
    the number of tasks that a large micro-batch is split into, by default the number of cores of
    this machine. `dedup_retention_ms` is for how long after its event time
    `dropDuplicatesWithinWatermark` remembers an event.

    ``domain="ingestion"`` reads the marks of an observer (`writer_client.IngestionNoter`) and adds
    the column `_ingested`: 1 ms before the lower of the first mark whose cut lies above the row.
    Rows beyond the last cut wait. The watermark is that of `_ingested`, and `event_time` is left
    out; or that of `event_time`, `max_event_time_lag_ms` below the lower: rows that were older than
    that when they came in are late.

    `max_rows_per_trigger` bounds a micro-batch. With a `backlog` policy, those that are planned
    while the query has a backlog (FLIP-328) are bounded by `backlog_rows_per_trigger` in its place,
    by default not at all: to catch up takes fewer and larger batches.

    `late="keep"` adds the column `_late`, true for rows that were read too late: `split_late` puts
    them into a branch of their own before Spark drops them.

    Once the query has read all of a sealed stream, `on_seal="close"` moves the watermark to the end
    of Spark's time, so that every window closes; `"hold"` leaves it at the lower of the last mark.

    Raises `InvalidName` for the stream; `Rejected` for a URL, column or schema that cannot be,
    another order, a range that is empty or that Spark cannot express, and options that do not go
    together; `ImplausibleTime` for an `end_at` in seconds; `UnknownStream`, `UnknownDomain` and
    `NotAllowed` as the controller answers, and `UnexpectedAnswer` if something else does. (With
    Spark Connect the server looks for log and controller, once the query starts.) The query fails
    with `Rejected` if the controller does not know the stream or the domain when it starts, or no
    longer keeps the marks at `end_at`; if the checkpoint has another `end_at`; or if the stream was
    made again after it was sealed and read to its end. It fails with `UnreadableFile` for a file
    that is truncated or foreign. While the controller is away, the query goes on reading, with
    `end_at` up to the last cut that it knows, and its watermark does not advance.
    """
    event_time = event_time_of(domain, event_time, max_event_time_lag_ms)
    times = TimeRange.asked(start_at, end_at, domain)
    _check_limits(max_rows_per_trigger, backlog, backlog_rows_per_trigger)
    query = LogQuery(
        root=str(root),
        stream=checked_name("stream", stream),
        controller_url=controller_url,
        event_time=event_time,
        domain=domain,
        times=times,
        columns=_with_time(columns, event_time),
        strict=strict,
        max_rows=max_rows_per_trigger or 0,
        order=checked_order(order),
        align=None if align is None else checked_name("alignment", align),
        align_as=None if align_as is None else checked_name("member", align_as),
        cores=cores or os.cpu_count() or 1,
        lag_ms=max_event_time_lag_ms or 0,
        backlog=backlog,
        backlog_rows=backlog_rows_per_trigger or 0,
        keeps_late=keeps_late(late),
        on_seal=checked_on_seal(on_seal),
        unstamped=checked_unstamped(unstamped, domain),
    )
    is_here = isinstance(spark, SparkSession)  # log and controller are a Connect server's to find
    with closing(Connection(controller_url, stream, None, token)) as connection:
        if is_here:
            _check_known(connection, domain, end_at)
    rows = scan_schema(query, _parsed(schema)) if is_here or schema is not None else None
    reader = spark.readStream.format(registered(spark, LogSource)).option(OPTION, query.to_option())
    if token is not None:
        reader = reader.option(TOKEN, token)
    if rows is not None:
        reader = reader.schema(rows)
    return events_of_scan(reader.load(), event_time, dedup_retention_ms)


def _check_known(connection: Connection, domain: str | None, end_at: Time | None) -> None:
    """Raise if the controller does not know the stream or domain; it may also be away.

    Raises `UnexpectedAnswer` where it is not a controller, and `ImplausibleTime` for an `end_at` in
    seconds: the query would end at once, without a row.
    """
    try:
        stream = connection.stream()
    except UnexpectedAnswer:
        raise
    except Unreachable:
        return
    domains = tuple(stream["domains"])
    chosen = StreamSettings(domains=domains).domain_or_default(domain)
    if chosen not in domains:
        raise UnknownDomain(chosen, domains)
    last = stream["marks"].get(chosen)
    if isinstance(end_at, int) and last and stream.get("max_time_ahead_ms") is not None:
        check_time(end_at, last["lower"])


def _with_time(columns: Sequence[str] | None, event_time: str) -> tuple[str, ...]:
    """Return the columns to read of the log, none for all; the event time is always read."""
    if not columns or event_time == INGESTED:
        return tuple(columns or ())
    return tuple(dict.fromkeys((*columns, event_time)))


def _parsed(schema: StructType | str | None) -> StructType | None:
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if found is None or isinstance(found, StructType):
        return found
    raise Rejected(f'schema {schema!r} names no columns: "departure timestamp, origin string"')


def _check_limits(usual: int | None, backlog: BacklogPolicy | None, larger: int | None) -> None:
    """Raise `Rejected` where the limit while there is a backlog is none, or a smaller one."""
    if larger is None:
        return
    if backlog is None:
        raise Rejected("backlog_rows_per_trigger requires backlog=")
    if larger < (least := max(1, usual or 1)):
        raise Rejected(
            f"backlog_rows_per_trigger is {larger}: "
            f"it must be at least max_rows_per_trigger ({least})"
        )
