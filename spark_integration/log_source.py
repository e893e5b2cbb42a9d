"""The file log as a streaming source of Spark: events, and the marks that they have reached."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
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

from noted_time import BacklogPolicy
from noted_time.ingestion import INGESTION
from noted_time.wire import position_to_wire
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
from spark_integration.ingested import INGESTED, IngestionMarks, with_ingested
from spark_integration.late_rows import judged, with_late, without_late
from spark_integration.log_files import LogFile, LogFiles
from spark_integration.log_rows import RowShape, log_schema
from spark_integration.offsets import LogOffset
from spark_integration.options import TOKEN
from spark_integration.release import Releaser
from spark_integration.sealing import watermark_ms
from spark_integration.time_order import Unread, rows_by_time
from spark_integration.watermark import is_watermark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_integration.aligning import Files
    from spark_integration.marks_feed import MarksFeed
    from spark_integration.offsets import Json
    from spark_integration.sealing import OnSeal
    from spark_integration.time_order import Order

OPTION = "query"
"""The one option: a `LogQuery` in JSON, since Spark's options know only strings."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What a query asks of the log.

    `columns` empty means all; `max_rows` 0 no limit per micro-batch; `cores` how many tasks are
    worth having at once; `order` decides which rows a limit lets in; `lag_ms` is how far the event
    time is behind that of the marks. While there is a `backlog`, the limit is `backlog_rows`.
    `keeps_late` says that rows tell whether they are late. `align` names the
    alignment whose member `align_as` the source is.
    """

    root: str
    stream: str
    controller_url: str
    event_time: str
    domain: str | None = None
    columns: tuple[str, ...] = ()
    strict: bool = True
    max_rows: int = 0
    cores: int = 2
    order: Order = "share"
    lag_ms: int = 0
    backlog: BacklogPolicy | None = None
    backlog_rows: int = 0
    keeps_late: bool = False
    on_seal: OnSeal = "close"
    align: str | None = None
    align_as: str | None = None

    def to_option(self) -> str:
        """Return the text that travels in Spark's options."""
        return json.dumps(asdict(self))

    @classmethod
    def from_option(cls, text: str) -> LogQuery:
        """Return the query from the text."""
        fields = json.loads(text)
        policy = fields["backlog"] and BacklogPolicy(**fields["backlog"])
        return cls(**{**fields, "columns": tuple(fields["columns"]), "backlog": policy})

    @property
    def is_ingestion(self) -> bool:
        """Whether the marks are those of ingestion, by which rows are stamped."""
        return self.domain == INGESTION

    @property
    def domain_name(self) -> str:
        """Under which name the offset log keeps the marks of this query's domain."""
        return self.domain or "default"


@dataclass(frozen=True, slots=True)
class LogTask(InputPartition):
    """What one task yields: the rows of its slices, then the mark, where it carries one.

    Rows with a time below `late_below` are late: the lower that the query had sent before.
    """

    work: tuple[Slice, ...]
    mark_ms: int | None
    late_below: int | None


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
        """Return the schema of the log's first file, and the mark column."""
        query = self.query
        event_time = None if query.event_time == INGESTED else query.event_time
        found = log_schema(Path(query.root), query.stream, event_time, query.columns)
        found = with_ingested(found) if query.is_ingestion else found
        return with_late(found) if query.keeps_late else found

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
        self._stated = False
        self._target: dict[int, list[LogFile]] | None = None
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
        return IngestionMarks(self._feed)

    @cached_property
    def _releaser(self) -> Releaser:
        return Releaser(
            self._ingestion if self._query.is_ingestion else self._feed(), self._query.on_seal
        )

    @cached_property
    def _aligner(self) -> Aligner | None:
        return Aligner.of(self._query, self._bearer)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, which is no token."""
        return {**self.__dict__, "_bearer": None}

    # Planning

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the start of the log, with no mark."""
        return LogOffset(self._query.stream).to_json()

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
        begun = LogOffset.from_json(start)
        released = begun.released(self._query.domain_name)
        if self._target is None or not self._stated:
            self._releaser.follow(released)
        ended = replace(begun, segments=self._ends(begun, limit))
        if self._query.is_ingestion:
            ended = self._ingestion.stamping(begun, ended)
        ended = ended.letting_in(
            self._query.domain_name, self._releaser.release(released, ended.segments)
        )
        return self._sizes.noted(begun, self._stating(begun, ended)).to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """Return how far log and marks go, which shows how far behind the query is."""
        if "_releaser" not in self.__dict__:
            return None
        ends = {segment: files[-1].end for segment, files in self._files.refresh().items() if files}
        return {
            "noted_log": self._query.stream,
            "segments": position_to_wire(ends),
            "domain": self._query.domain_name,
            "last_lower": self._releaser.last_lower,
        }

    def _ends(self, begun: LogOffset, limit: ReadLimit) -> dict[int, int]:
        files = self._files.refresh() if self._target is None else self._target
        for segment, offset in begun.segments.items():
            check_there(files.get(segment, []), offset, 0)
        if self._query.is_ingestion:
            files = self._ingestion.covered(files)
        if self._aligner is None:
            return {**begun.segments, **self._ends_in(files, begun, limit)}
        lower = begun.released(self._query.domain_name).lower
        return self._aligner.ends(
            Reading(files, begun.segments, self._releaser.history, lower),
            lambda below: self._ends_in(below, begun, limit),
            is_to_end=self._target is not None,
        )

    def _ends_in(self, files: Files, begun: LogOffset, limit: ReadLimit) -> dict[int, int]:
        rows = available(files, begun.segments)
        domain, last_lower = self._query.domain_name, self._releaser.last_lower
        unread = sum(rows.values())
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
        (SPARK-50046): a join would stand still until its quiet side had a new mark.
        """
        first, self._stated = not self._stated, True
        if first and begun.released(self._query.domain_name).lower is not None:
            return replace(ended, run=begun.run + 1)
        return ended

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same ones for the same offsets, at any time."""
        begun, ended = LogOffset.from_json(start), LogOffset.from_json(end)
        if begun == ended:
            return []
        dealt = tasks(list(self._work(begun, ended)), self._query.cores) or [[]]
        first, *others = dealt
        late_below = self._lower_ms(begun)
        marking = LogTask(tuple(first), self._mark_ms(ended), late_below)
        return [marking, *(LogTask(tuple(task), None, late_below) for task in others)]

    def _lower_ms(self, offset: LogOffset) -> int | None:
        """Return the lower of an offset in terms of the event time, where Spark can express it."""
        released = offset.released(self._query.domain_name)
        if released.sealed or released.lower is None:
            return released.lower
        lower = released.lower - self._query.lag_ms
        return lower if is_watermark(lower) else None

    def _mark_ms(self, ended: LogOffset) -> int | None:
        released = ended.released(self._query.domain_name)
        released = replace(released, lower=self._lower_ms(ended))
        return watermark_ms(released, strict=self._query.strict)

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
        yield from self._shape.events(task.work)
        if task.mark_ms is not None:
            yield self._shape.mark(task.mark_ms)
