"""Plans and reads batches of the file log's source, without a Spark session."""

from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from spark_integration.log.late_rows import LATE_COLUMN
from spark_integration.log.options import Option, choose_options
from spark_integration.log.query import OPTION_FIELDS, LogQuery
from spark_integration.log.source import LogReader, LogSource
from spark_integration.marks.offset import NotedOffset, StreamOffset
from spark_integration.marks.watermark import MARK_TIME
from spark_integration.session.sources import build_options
from tests.support.bundles import take_noted
from tests.support.noted_stream import INSTANT, NotedStream


class Batch(NamedTuple):
    """A micro-batch: its end, the (time in ms, name) of its rows, and its watermark.

    `late` are the times of rows marked late.
    """

    end: NotedOffset
    rows: list[tuple[int, str]]
    watermark: int | None
    late: list[int]

    @property
    def read(self) -> StreamOffset:
        """How far the log's only stream is read."""
        (read,) = self.end.streams.values()
        return read


def build_query(stream: NotedStream, *options: Option, **asked: Any) -> LogQuery:  # noqa: ANN401
    chosen = {"event_time": "time", **asked}
    noted = take_noted(chosen, stream.server.url, stream.name)
    chosen |= choose_options(options, OPTION_FIELDS)
    return LogQuery(str(stream.root), noted.name, noted.url, **chosen)


def open_reader(query: LogQuery) -> LogReader:
    source = LogSource(build_options(query))
    return source.streamReader(source.schema())


def read_batches(query: LogQuery, start: NotedOffset | None = None) -> list[Batch]:
    """Return the batches from `start` on, each after a restart."""
    begun, found = start or query.beginning, list[Batch]()
    while True:
        reader = open_reader(query)
        try:
            planned = reader.latestOffset(begun.to_json(), reader.getDefaultReadLimit())
        finally:
            reader.stop()
        ended = replace(NotedOffset.from_json(planned), run=0)
        if ended == begun:
            return found
        found.append(replay_batch(query, begun, ended))
        begun = ended


def plan_run(query: LogQuery, start: NotedOffset | None = None) -> list[NotedOffset]:
    """Return the ends of the batches of one run."""
    reader, found = open_reader(query), list[NotedOffset]()
    end = (start or query.beginning).to_json()
    try:
        while (following := reader.latestOffset(end, reader.getDefaultReadLimit())) != end:
            end = following
            found.append(NotedOffset.from_json(end))
    finally:
        reader.stop()
    return found


def replay_batch(query: LogQuery, begun: NotedOffset, ended: NotedOffset) -> Batch:
    """Return a batch that was planned before, read by a run that asks for no marks."""
    reader, rows, watermark = open_reader(query), list[tuple[int, str]](), None
    late = list[int]()
    for task in reader.partitions(begun.to_json(), ended.to_json()):
        for read in reader.read(task):
            names, flags = (
                read[column].to_pylist() if column in read.schema.names else repeat(otherwise)
                for column, otherwise in (("name", ""), (LATE_COLUMN, False))
            )
            times, marks = _ms(read["time"]), _ms(read[MARK_TIME])
            for time, name, is_late, mark in zip(times, names, flags, marks, strict=False):
                if mark is not None:
                    watermark = mark
                    continue
                rows.append((time, name))
                if is_late:
                    late.append(time)
    return Batch(ended, sorted(rows), watermark, sorted(late))


def _ms(instants: pa.Array) -> list[Any]:
    """Return the Unix ms of instants, also beyond Python's `datetime`."""
    return list(instants.cast(INSTANT, safe=False).cast(pa.int64()).to_pylist())
