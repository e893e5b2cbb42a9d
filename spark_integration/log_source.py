"""The file log as a streaming source of Spark: events, and the marks that they have reached."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from noted_time.client import position_to_wire
from spark_integration.admission import (
    Slice,
    advanced,
    available,
    check_there,
    shares,
    slices,
    tasks,
)
from spark_integration.aligning import Aligner, Reading
from spark_integration.batch_sizes import BatchSizes
from spark_integration.ingested import IngestionMarks, below
from spark_integration.late_rows import judged, without_late
from spark_integration.log_files import LogFile, LogFiles
from spark_integration.log_query import OPTION, LogQuery
from spark_integration.log_rows import RowShape, scan_schema
from spark_integration.missing_rows import MissingRows
from spark_integration.options import TOKEN
from spark_integration.release import Releaser
from spark_integration.sealing import watermark_ms
from spark_integration.time_order import Unread, rows_by_time
from spark_integration.time_range import first_offsets
from spark_integration.watermark import is_watermark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_integration.aligning import Files
    from spark_integration.marks_feed import MarksFeed
    from spark_integration.offsets import Json, LogOffset, Released
    from spark_integration.time_range import TimeRange


@dataclass(frozen=True, slots=True)
class LogTask(InputPartition):
    """What one task yields: the rows of its slices, then the mark, where it carries one.

    Of the rows those within `times`. The ones with a time below `late_below` are late: the lower
    that the query had sent before.
    """

    work: tuple[Slice, ...]
    mark_ms: int | None
    late_below: int | None
    times: TimeRange


class LogSource(DataSource):
    """Spark's entry: one `LogQuery` per stream."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))
        self.query = LogQuery.from_option(options[OPTION])

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "noted_log"

    def schema(self) -> StructType:
        """Return the schema of the log's first file, and the columns of marks and rows."""
        return scan_schema(self.query)

    def streamReader(self, schema: StructType) -> LogReader:  # noqa: N802 - Spark's name
        """Return the reader of one run of a query."""
        read = without_late(schema) if self.query.keeps_late else schema
        shape = RowShape(read, self.query.event_time, self.query.is_ingestion)
        return LogReader(self.query, shape, self.options.get(TOKEN))


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in a process beside the driver, and reads their parts on the workers.

    The parts travel with a pickled copy of this object, so it holds nothing but values until the
    first offset is asked for.
    """

    def __init__(self, query: LogQuery, shape: RowShape, token: str | None = None) -> None:
        self._bearer = token
        self._query = query
        self._shape = shape
        self._stated = self._closed = False
        self._target: dict[int, list[LogFile]] | None = None
        self._upto: Mapping[int, int] | None = None
        self._sizes = BatchSizes(query.backlog, query.backlog_rows)

    @cached_property
    def _files(self) -> LogFiles:
        columns = frozenset(self._shape.columns)
        return LogFiles(Path(self._query.root), self._query.stream, columns)

    def _feed(self) -> MarksFeed:
        # Only the planning process talks HTTP; workers are spared the import.
        from spark_integration.marks_feed import ControllerFeed  # noqa: PLC0415

        query = self._query
        return ControllerFeed(query.controller_url, query.stream, query.domain, token=self._bearer)

    @cached_property
    def _ingestion(self) -> IngestionMarks:
        return IngestionMarks(self._feed, self._query.unstamped)

    @cached_property
    def _releaser(self) -> Releaser:
        return Releaser(
            self._ingestion if self._query.is_ingestion else self._feed(), self._query.on_seal
        )

    @cached_property
    def _missing(self) -> MissingRows:
        return MissingRows(self._query.stream, self._query.root)

    @cached_property
    def _aligner(self) -> Aligner | None:
        return Aligner.of(self._query, self._bearer)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, which is no token."""
        return {**self.__dict__, "_bearer": None}

    # Planning

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the start of the log, with no mark."""
        return self._query.beginning.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of rows per micro-batch."""
        limit = self._query.max_rows
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read nothing that is appended from now on."""
        self._target = self._files.refresh()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        """Return where the next micro-batch ends: rows up to the limit, and the mark they reach.

        Marks are taken before the files are listed: what a mark's cut names is then in the list.
        """
        begun = self._query.offset(start)
        released = begun.released(self._query.domain_name)
        if self._target is None or not self._stated:
            self._releaser.follow(released)
        begun = self._within_times(begun)
        self._look_up_end(begun, released)
        ended = begun if begun.times.are_read(released.lower) else self._ended(begun, limit)
        return self._sizes.noted(begun, self._stating(begun, ended)).to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """Return how far log and marks go, which shows how far behind the query is."""
        if "_releaser" not in self.__dict__:
            return None
        files = self._clipped(self._files.refresh())
        ends = {segment: run[-1].end for segment, run in files.items() if run}
        return {
            "noted_log": self._query.stream,
            "segments": position_to_wire(ends),
            "domain": self._query.domain_name,
            "last_lower": self._query.times.capped(self._releaser.last_lower),
        }

    def _within_times(self, begun: LogOffset) -> LogOffset:
        """Return where a batch begins, with the range of times that the query has.

        The offset of the first batch keeps where it began, as that is found but once.
        """
        if begun == self._query.beginning:
            begun = replace(begun, times=self._query.times, begin=self._first_offsets())
            begun = replace(begun, segments=begun.begin)
        return replace(begun, times=begun.times.going_on(self._query.times))

    def _look_up_end(self, begun: LogOffset, released: Released) -> None:
        """Learn how far to read where the range has an end; once it is read, hold nobody back."""
        end_at = begun.times.end_at
        if begun.times.are_read(released.lower):
            self._upto = begun.segments
            if self._aligner is not None:
                self._aligner.bound(released.lower, "finished")
        elif end_at is not None:
            self._upto = self._releaser.cut_towards(end_at, released)

    def _first_offsets(self) -> dict[int, int]:
        start_at = self._query.times.start_at
        if start_at is None:
            return {}
        marks = self._releaser.history
        known = marks.bounded_below(start_at, marks.last_seq)
        from_cut = {} if known is None else known.cut.offsets
        files, final = self._there(), self._releaser.final
        return first_offsets(files, self._query.event_time, start_at, from_cut, final)

    def _there(self) -> Files:
        return self._files.refresh() if self._target is None else self._target

    def _clipped(self, files: Files) -> Files:
        upto = self._upto
        if upto is None:
            return files
        return {segment: below(run, upto.get(segment, 0)) for segment, run in files.items()}

    def _ended(self, begun: LogOffset, limit: ReadLimit) -> LogOffset:
        domain = self._query.domain_name
        files, known = self._there(), self._releaser
        gone = self._missing.gone(files, begun.segments, known)
        if self._target is None:
            self._missing.tell(files, gone, known)
        ended = replace(begun, segments=self._ends(files, begun, limit))
        if self._query.is_ingestion:
            ended = self._ingestion.stamping(begun, ended, files)
        released = known.release(begun.released(domain), {**gone, **ended.segments})
        return ended.letting_in(domain, released)

    def _ends(self, files: Files, begun: LogOffset, limit: ReadLimit) -> dict[int, int]:
        files = self._clipped(files)
        if self._query.is_ingestion:
            files = self._ingestion.covered(files)
        if self._aligner is None:
            return {**begun.segments, **self._ends_in(files, begun, limit)}
        lower = begun.released(self._query.domain_name).lower
        return self._aligner.ends(
            Reading(files, begun.segments, self._releaser.history, lower, self._releaser.at_end),
            lambda below: self._ends_in(below, begun, limit),
            is_to_end=self._target is not None,
        )

    def _ends_in(self, files: Files, begun: LogOffset, limit: ReadLimit) -> dict[int, int]:
        rows = available(files, begun.segments)
        last_lower, unread = begun.times.capped(self._releaser.last_lower), sum(rows.values())
        domain = self._query.domain_name
        limit = self._sizes.limit(limit, begun, domain, last_lower, unread=unread)
        if isinstance(limit, ReadMaxRows):
            rows = self._admitted(files, begun.segments, rows, limit.max_rows)
        return {s: advanced(files[s], begun.segments.get(s, 0), rows[s]) for s in files}

    def _admitted(
        self,
        files: dict[int, list[LogFile]],
        start: Mapping[int, int],
        rows: Mapping[int, int],
        limit: int,
    ) -> dict[int, int]:
        if self._query.order == "time":
            known = self._releaser
            return rows_by_time(Unread(files, start), limit, known.history, known.succession)
        return shares(rows, limit)

    def _stating(self, begun: LogOffset, ended: LogOffset) -> LogOffset:
        """Make the first batch of a run differ, so that the last lower is stated again.

        Spark's commit log keeps one watermark for the whole query and not that of each source
        (SPARK-50046): a join would stand still until its quiet side had a new mark. So does the
        batch after the end of a sealed stream: a query without state has no other one under the
        last watermark, which `NotedLogSink` waits for.
        """
        released = begun.released(self._query.domain_name)
        is_due = released.lower is not None and not self._stated
        is_due = is_due or (released.sealed and not self._closed)
        self._stated, self._closed = True, released.sealed
        return replace(ended, run=begun.run + 1) if is_due else ended

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same ones for the same offsets, at any time."""
        begun, ended = self._query.offset(start), self._query.offset(end)
        if begun == ended:
            return []
        begun = replace(begun, segments={**ended.begin, **begun.segments})
        dealt = tasks(list(self._work(begun, ended)), self._query.cores) or [[]]
        first, *others = dealt
        late_below = self._lower_ms(begun)
        marking = LogTask(tuple(first), self._mark_ms(ended), late_below, ended.times)
        return [marking, *(replace(marking, work=tuple(t), mark_ms=None) for t in others)]

    def _lower_ms(self, offset: LogOffset) -> int | None:
        """Return the lower of an offset in terms of the event time, where Spark can express it."""
        released = offset.released(self._query.domain_name)
        if released.sealed or released.lower is None:
            return offset.times.capped(released.lower)
        lower = released.lower - self._query.lag_ms
        return offset.times.capped(lower) if is_watermark(lower) else None

    def _mark_ms(self, ended: LogOffset) -> int | None:
        released = ended.released(self._query.domain_name)
        are_read = ended.times.are_read(released.lower)
        released = replace(released, lower=self._lower_ms(ended))
        return watermark_ms(released, strict=self._query.strict and not are_read)

    def _work(self, begun: LogOffset, ended: LogOffset) -> Iterator[Slice]:
        work = self._runs(begun, ended)
        if self._query.is_ingestion:
            yield from self._ingestion.slices(ended, work)
            return
        for _, run, start, end in work:
            yield from slices(run, start, end)

    def _runs(
        self, begun: LogOffset, ended: LogOffset
    ) -> Iterator[tuple[int, list[LogFile], int, int]]:
        """Yield (segment, files, start, end) of the rows between the offsets."""
        files = self._files.refresh()
        for segment, end in ended.segments.items():
            run, start = files.get(segment, []), begun.segments.get(segment, 0)
            if start < end:
                check_there(run, start, end)
                yield segment, run, start, end

    def stop(self) -> None:
        """Stop following marks."""
        if "_releaser" in self.__dict__:
            self._releaser.close()
        if self.__dict__.get("_aligner") is not None:
            self.__dict__["_aligner"].close()

    # Reading

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of one task; raises `UnreadableFile`."""
        task: LogTask = partition  # type: ignore[assignment]
        rows = self._rows(task)
        keeps_late = self._query.keeps_late
        yield from judged(rows, self._query.event_time, task.late_below) if keeps_late else rows

    def _rows(self, task: LogTask) -> Iterator[pa.RecordBatch]:
        yield from task.times.rows(self._shape.events(task.work), self._query.event_time)
        if task.mark_ms is not None:
            yield self._shape.mark(task.mark_ms)
