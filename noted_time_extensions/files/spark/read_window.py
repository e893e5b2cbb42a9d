"""Reads a complete window of time from the file log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from noted_time import Rejected
from noted_time.extending import Time, Transport, choose_domain, locate_root
from noted_time_extensions.files.spark.forms import ColumnForms
from noted_time_extensions.files.spark.log_files import CutRange
from noted_time_extensions.files.spark.options import Columns
from noted_time_extensions.files.spark.window_source import CompleteSource, WindowQuery
from reader_client.extending import ask_stream
from spark_integration import BatchRead, Noted
from spark_integration.extending import (
    OnMissing,
    build_options,
    choose_options,
    count_cores,
    create_reader,
    wait_for_window,
)


def read_complete(  # noqa: PLR0913 - keyword-only but for five
    spark: SparkSession,
    root: str | Path,
    noted: Noted,
    start: Time,
    end: Time,
    *options: BatchRead | Columns,
    event_time: str,
    domain: str | None = None,
    late: OnMissing = "warn",
    ignore: Sequence[str] = (),
) -> DataFrame:
    """Return the events of a file log with `start` <= time < `end`, once they are complete.

    These are the events below the cut of the first mark with a lower at or above `end`. So
    consecutive windows return each event once. `start` and `end` are Unix ms or aware `datetime`s.

    Late rows of the window are not read: ``late="warn"`` logs the late rows that writers reported,
    and ``"fail"`` raises `RowsMissing`.

    The event times are read as the stream states. Without a statement, `Columns` must name the zone
    of a column without one, or the unit of numbers.

    Options are objects, at most one of each class: `BatchRead`, and `Columns`. Other arguments are
    as in `read_noted_log`.

    Raises `NotCompleteYet` if the window is not complete within the read's timeout, `Rejected` if
    it is empty, before the first mark or outside Spark's range of time, and `UnknownStream`,
    `UnknownDomain`, `NotAllowed` and `Unreachable`. The read fails with `Rejected` if rows of the
    window were deleted, and with `UnreadableFile`.
    """
    option_by_field = choose_options(options, {BatchRead: "read", Columns: "columns"})
    batch_read: BatchRead = option_by_field.get("read", BatchRead())
    columns: Columns = option_by_field.get("columns", Columns())
    if batch_read.deleted != "fail" or columns.late != "drop":
        raise Rejected('a window of a file log has no deleted="accept", and no late="keep"')
    place = locate_root(root, is_read_here=isinstance(spark, SparkSession))
    window = wait_for_window(noted, start, end, domain=domain, read=batch_read, late=late)
    forms = _find_forms(noted, domain, event_time, columns)
    column_names: tuple[str, ...] = ()
    if columns.names:
        column_names = tuple(dict.fromkeys((*columns.names, event_time)))
    query = WindowQuery(
        root=place,
        stream=noted.name,
        start=window.start,
        end=window.end,
        between=CutRange(window.from_cut.offsets, window.to_cut.offsets, event_time),
        own_segments=batch_read.own_segments,
        columns=column_names,
        cores=batch_read.cores or count_cores(spark),
        ignore=tuple(ignore),
        forms=forms,
    )
    reader = create_reader(spark, spark.read, CompleteSource, build_options(query))
    if columns.schema is not None:
        reader = reader.schema(columns.schema)
    return reader.load()


def _find_forms(noted: Noted, domain: str | None, event_time: str, columns: Columns) -> ColumnForms:
    forms = ColumnForms(noted.name, event_time, columns.own_form)
    with closing(Transport(noted.controller, token=noted.token)) as transport:
        stream = transport.ask(ask_stream(noted.name))
    chosen_domain = domain or choose_domain(stream.domains)
    return replace(forms, stated=forms.take_stated(stream.event_time_forms, chosen_domain))
