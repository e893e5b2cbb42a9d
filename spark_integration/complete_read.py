"""How a batch job reads a window of time exactly once it is complete."""

from __future__ import annotations

import json
import logging
import os
import time as clocks
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from noted_time import CompleteWindow, Rejected, WritersMissing
from noted_time.client import position_to_wire
from noted_time.client.transport import Transport
from noted_time.values import Time, checked_name
from reader_client.answers import windows_answer
from reader_client.questions import complete_to, windows_from
from spark_integration.complete_source import CompleteSource, WindowQuery
from spark_integration.options import check_one_of
from spark_integration.sources import reader_for
from spark_integration.time_range import time_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("noted_time.spark")

WAIT_MS = 25_000
AT_ONCE_S = 0.05
OnMissing = Literal["warn", "fail", "accept"]
"""What to do if writers are missing from a window."""

EARLIEST = -2
"""Spark's word for the first offset that a partition of a topic still has."""


class KafkaOffsets(NamedTuple):
    """The options `startingOffsets` and `endingOffsets` of a batch read of a Kafka topic."""

    starting: str
    ending: str


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
    `WritersMissing`.

    The other arguments are those of `read_noted_log`; `event_time` is read whatever `columns` are.

    The controller is asked before this returns, by the process that calls: raises `NotCompleteYet`
    if the window is not complete within `timeout` seconds, `UnknownStream`, `UnknownDomain`,
    `NotAllowed`, `Unreachable`, and `Rejected` for a window that is empty or that Spark cannot
    express. The read itself fails with `Rejected` if rows of the window were deleted, and with
    `UnreadableFile`.
    """
    first, last = time_ms(start), time_ms(end)
    if first >= last:
        raise Rejected(f"no window: its start {first} is not below its end {last}")
    checked_name("stream", stream)
    check_one_of("missing", missing, OnMissing)
    with closing(Transport(controller_url, token=token)) as transport:
        window = _complete_window(transport, stream, (first, last), domain, timeout)
    if window.missing and missing == "fail":
        raise WritersMissing(window.missing)
    if window.missing and missing == "warn":
        _log.warning("stream %r from %d to %d: %s", stream, first, last, window.missing.sentence)
    query = WindowQuery(
        root=str(root),
        stream=stream,
        event_time=event_time,
        start=first,
        end=last,
        from_cut=window.from_cut.offsets,
        to_cut=window.to_cut.offsets,
        own_segments=own_segments,
        columns=tuple(dict.fromkeys((*columns, event_time))) if columns else (),
        cores=cores or os.cpu_count() or 1,
    )
    reader = reader_for(spark, spark.read, CompleteSource, query)
    return (reader if schema is None else reader.schema(schema)).load()


def kafka_offsets(
    window: CompleteWindow, topic: str, *, own_segments: bool = False
) -> KafkaOffsets:
    """Return the offsets between which a batch read of a Kafka topic has all rows of a window.

    Its partitions are the segments. Filter what is read by the event time, as rows of other windows
    lie there too. The read begins at the first offsets there are, or with `own_segments` (no two
    producers ever write to one partition) at the start cut, if that is known.

    >>> from noted_time import CompleteWindow, StreamCut
    >>> window = CompleteWindow(0, 10, StreamCut({0: 5}), StreamCut({0: 8, 1: 3}), 1, 0, exact=True)
    >>> starting, ending = kafka_offsets(window, "flights", own_segments=True)
    >>> starting, ending
    ('{"flights": {"0": 5, "1": -2}}', '{"flights": {"0": 8, "1": 3}}')
    """
    ending = window.to_cut.offsets
    known = window.from_cut.offsets if own_segments else {}
    starting = {segment: known.get(segment, EARLIEST) for segment in ending}
    return KafkaOffsets(
        *(json.dumps({topic: position_to_wire(each)}) for each in (starting, ending))
    )


def _complete_window(
    transport: Transport, stream: str, times: tuple[int, int], domain: str | None, timeout_s: float
) -> CompleteWindow:
    """Wait for the window; raises `NotCompleteYet`."""
    deadline = clocks.monotonic() + timeout_s
    start, end = times
    while True:
        asked_at = clocks.monotonic()
        left_ms = max(0, min(WAIT_MS, int((deadline - asked_at) * 1000)))
        question = windows_from(stream, start, end - start, 1, domain, left_ms)
        windows = windows_answer(transport.ask(question))
        if windows:
            return windows[0]
        if clocks.monotonic() >= deadline:
            transport.ask(complete_to(stream, end, domain))
        elif clocks.monotonic() - asked_at < AT_ONCE_S:
            clocks.sleep(AT_ONCE_S)  # a controller about to stop does not wait
