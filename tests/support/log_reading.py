"""What the file log's source plans and reads, batch by batch, without a Spark session."""

from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from spark_integration.log_query import LogQuery
from spark_integration.log_source import LogReader, LogSource
from spark_integration.offsets import LogOffset
from spark_integration.options import Option
from spark_integration.sources import options_of
from spark_integration.watermark import MARK_TIME
from tests.support.noted_stream import NotedStream


class Batch(NamedTuple):
    """A micro-batch: its end, the (time in ms, name) of its rows, and the watermark it states."""

    end: LogOffset
    rows: list[tuple[int, str]]
    watermark: int | None


def log_query(stream: NotedStream, *options: Option, **asked: Any) -> LogQuery:  # noqa: ANN401
    """Return a query of a stream whose controller serves marks."""
    chosen = {"controller_url": stream.server.url, "event_time": "time", **asked}
    return LogQuery.asked(stream.root, stream.name, options, **chosen)


def reader_of(query: LogQuery) -> LogReader:
    """Return what reads one run of a query."""
    source = LogSource(options_of(query))
    return source.streamReader(source.schema())


def batches(query: LogQuery, start: LogOffset | None = None) -> list[Batch]:
    """Return the batches from `start` on, by default the beginning; each runs after a restart."""
    begun, found = start or LogOffset(query.stream), list[Batch]()
    while True:
        reader = reader_of(query)
        try:
            planned = reader.latestOffset(begun.to_json(), reader.getDefaultReadLimit())
        finally:
            reader.stop()
        ended = replace(LogOffset.from_json(planned), run=0)
        if ended == begun:
            return found
        found.append(replayed(query, begun, ended))
        begun = ended


def replayed(query: LogQuery, begun: LogOffset, ended: LogOffset) -> Batch:
    """Return a batch that was planned before, as a run reads it that never asked for marks."""
    reader, rows, watermark = reader_of(query), list[tuple[int, str]](), None
    for task in reader.partitions(begun.to_json(), ended.to_json()):
        for read in reader.read(task):
            for row in read.to_pylist():
                if row[MARK_TIME] is None:
                    rows.append((_ms(row["time"]), row["name"]))
                else:
                    watermark = _ms(row[MARK_TIME])
    return Batch(ended, sorted(rows), watermark)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
