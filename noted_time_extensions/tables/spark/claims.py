"""Claims: a micro-batch states that a table has all rows of a query below a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession

from noted_time import NotedTimeError, Rejected
from noted_time.extending import (
    MIN_INT64,
    WHOLE_LOG,
    Requirement,
    Time,
    WholeFrom,
    check_least,
    combine_whole,
    name_noted_topic,
    name_program,
    parse_duration,
    unix_ms_of,
    validate_name,
)
from noted_time_extensions.tables.claim import (
    RESERVED_NAMES,
    Claim,
    ClaimSource,
    find_greatest,
    find_least,
    join_sources,
    read_retention_days,
    shift_bound,
)
from noted_time_extensions.tables.claim_verdicts import add_writers
from noted_time_extensions.tables.committing import (
    find_committed_part,
    format_properties,
    prepare_commit,
)
from noted_time_extensions.tables.spark.formats import OpenTable, open_table
from noted_time_extensions.tables.spark.memory import MEMORY_DIRECTORY, Memory, open_memory
from noted_time_extensions.tables.table_history import TableHistory
from noted_time_extensions.tables.table_urls import split_url
from spark_integration.extending import (
    PlannedBatch,
    QueryProgress,
    StreamFacts,
    is_noted,
    is_of_log,
    is_of_marks,
    list_facts,
)

log = logging.getLogger("noted_time.spark")

ASK_TIMEOUT_S = 1.0
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
SNAPSHOT_PROPERTY = "snapshot-property."
SESSION_PROPERTY = "spark.sql.iceberg.snapshot-property."

NOT_KEPT = "{}/ in the checkpoint {} cannot be written ({}), so no later batch can check this one"
NOT_STATED = WholeFrom(unknown="the offsets of its query do not show it")
LEAST_DAYS = 7
SHORT_RETENTION = (
    "%s keeps its commits for %g days: a query that commits nothing for longer claims nothing more "
    "until you run `%s claim accept`. Let the table keep its commits for at least %d days"
)
NOT_COVERED = (
    "{} of the query's sources have no marks, so it is unknown when their rows are complete: read "
    "them with noted-time. If they are only looked up (such as a table), pass static_sources={}"
)


@dataclass
class TableClaims:
    """The claims of a query about the tables that it writes, under a name.

    - `name`: each query of a table needs another name.
    - `time_of`: the column of the event time, or of a window's end.
    - `delay_ms`: how far below the watermark timers or interval joins may still emit rows.
    - `controller`: the controller names missing writers, if it answers within a second.
    - `static_sources`: how many sources without marks do not affect completeness.
    - `start_over`: whether the query may take over the name from another query, once.
    - `strict`: only needed without state and with `read_relayed_kafka`.
    - `from_time`: the time from which the query has every row, if its sources do not show it.
    - `window`: the largest size of the windows of a query with state, such as ``"1h"``, or ``"0s"``
      if it has no windows. `NotedTable` finds it if `time_of` is in a column of Spark's windows.
    - `keeps_late_rows`: whether rows that come late to a query with state are added to the table in
      another way.

    Raises `InvalidName` for a name, and `Rejected` for an unreadable checkpoint.
    """

    checkpoint_location: str
    name: str
    time_of: str
    delay_ms: int = 0
    controller: str | None = None
    token: str | None = field(default=None, repr=False)
    static_sources: int = 0
    start_over: bool = False
    strict: bool = False
    from_time: Time | None = None
    window: str = ""
    keeps_late_rows: bool = False

    def __post_init__(self) -> None:
        validate_name("table claim", self.name)
        if self.name in RESERVED_NAMES:
            raise Rejected(f"the name {self.name!r} is reserved: choose another name for the claim")
        if self.time_of.endswith("window.start"):
            raise Rejected(
                f"time_of={self.time_of!r} is the start of a window, but its rows are written "
                "when it ends: use the column of its end"
            )
        check_least("delay_ms", self.delay_ms, 0)
        parse_duration(self.window or "0s")
        self._progress = QueryProgress(self.checkpoint_location)
        self.tables: dict[str, OpenTable] = {}

    def of(self, batch_id: int) -> BatchClaim:
        """Return the claim of a micro-batch, even when it runs again.

        Raises `Rejected` if the query has sources without marks, or does not use the checkpoint.
        """
        planned_batch = self._progress.read_batch(batch_id)
        running_query = find_running_query()
        if running_query.id not in {"", planned_batch.query_id}:
            raise Rejected(
                f"checkpoint_location={self.checkpoint_location!r} belongs to query "
                f"{planned_batch.query_id}, but this is query {running_query.id}: give TableClaims "
                "the checkpointLocation of this query"
            )
        if planned_batch.watermark_policy != "min":
            raise Rejected(
                "spark.sql.streaming.multipleWatermarkPolicy=max: rows of slower sources may be "
                "below the watermark, so nothing can be claimed. Set it to min"
            )
        uncovered_count = sum(not is_covered for is_covered in check_covered(planned_batch.offsets))
        if uncovered_count > self.static_sources:
            raise Rejected(NOT_COVERED.format(uncovered_count, uncovered_count))
        batch_fields = {
            "query": planned_batch.query_id,
            "batch": planned_batch.batch_id,
            **describe_read(planned_batch),
        }
        has_state = self._progress.has_state()
        complete_to = self._find_complete_to(planned_batch, has_state=has_state)
        plan = format_plan(planned_batch)
        whole_from = find_whole_from(planned_batch.offsets, self._progress.begins_at_zero)
        if whole_from.is_pending:
            complete_to = None
        bound = None
        if whole_from.time is not None:
            bound = shift_bound(whole_from.time, self.delay_ms)
        from_time = self._find_from_time(whole_from, bound, has_state=has_state)
        claim = Claim(self.name, complete_to, self.time_of, plan=plan, **from_time, **batch_fields)
        keeps_late_rows = self._find_whether_it_keeps_late_rows(batch_id, has_state=has_state)
        claim = replace(claim, keeps_late_rows=keeps_late_rows)
        return BatchClaim(self, self._add_writers(claim), running_query.run, bound)

    def _find_from_time(
        self, whole_from: WholeFrom, bound: int | None, *, has_state: bool
    ) -> dict[str, Any]:
        """Return the time from which every row is there: a window around `bound` lacks some.

        A query with state may have windows of any size. The name of their column does not show it.
        """
        if bound is None:
            if self.from_time is None or not whole_from.unknown:
                return {}
            return {"from_time": unix_ms_of(self.from_time, up=True), "is_from_time_stated": True}
        if bound == MIN_INT64:
            return {"from_time": bound}
        if self.window:
            return {"from_time": shift_bound(bound, parse_duration(self.window))}
        if has_state or self.time_of.endswith(".end"):
            return {}
        return {"from_time": bound}

    def _find_whether_it_keeps_late_rows(self, batch_id: int, *, has_state: bool) -> bool | None:
        """Spark writes state with the first batch, so before that it is not known."""
        if self.keeps_late_rows:
            return True
        if has_state:
            return False
        if batch_id == 0:
            return None
        return True

    def _find_complete_to(self, planned_batch: PlannedBatch, *, has_state: bool) -> int | None:
        """Return the claimed time of a batch: its watermark, or without state the lower."""
        watermark = planned_batch.watermark_ms
        if watermark is None:
            return None
        if not has_state:
            former_batch = self._progress.read_batch(planned_batch.batch_id - 1)
            if self.strict or find_lower(former_batch.offsets) == watermark + 1:
                watermark += 1
        return watermark - self.delay_ms

    def memory(self, table: str) -> Memory:
        """Return the query's records of its batches for a table."""
        return open_memory(self.checkpoint_location, self.name, table)

    def is_last(self, batch_id: int) -> bool:
        """Return whether a batch has neither new rows nor a new mark, only a claim.

        The checkpoint may lack the batch before. Then it is not known, and the result is `False`.
        """
        if batch_id == 0:
            return False
        try:
            former_batch = self._progress.read_batch(batch_id - 1)
            planned_batch = self._progress.read_batch(batch_id)
        except Rejected:
            return False
        return _strip_runs(former_batch.offsets) == _strip_runs(planned_batch.offsets)

    def _add_writers(self, claim: Claim) -> Claim:
        if self.controller is None or claim.complete_to is None or len(claim.sources) != 1:
            return claim
        from noted_time.extending import Transport, run
        from reader_client.extending import ask_completeness, ask_stream, find_domain

        (source,) = claim.sources
        transport = Transport(self.controller, token=self.token, timeout_s=ASK_TIMEOUT_S)
        try:
            domain = run(find_domain(source.stream, source.domain), transport.ask)
            requirement = Requirement(to=claim.complete_to + source.lag_ms, domain=domain)
            answer = transport.ask(ask_completeness(source.stream, requirement))
            stream = transport.ask(ask_stream(source.stream))
        except NotedTimeError as error:
            log.warning("the claim of batch %d lacks its missing writers: %s", claim.batch, error)
            return claim
        finally:
            transport.close()
        ahead_ms = None if stream.seal else stream.max_time_ahead_ms
        return add_writers(claim, source._replace(domain=domain), answer, ahead_ms)


class BatchClaim(Struct, frozen=True):
    """The claim of one micro-batch.

    `table` is a URL, ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``. If the name's last claim has
    ended, or the table may lack earlier batches, nothing is claimed, which is logged.

    Raises `Rejected` if the table contains a later batch of the query, or this batch with other
    content, and if one run writes a part of a batch twice.
    """

    claims: TableClaims
    claim: Claim
    run: str = ""
    bound: int | None = None  # `from_time` of the rows that the query reads
    _histories: dict[str, TableHistory] = {}

    @property
    def complete_to(self) -> int | None:
        """The claimed time (Unix ms, exclusive), if any."""
        return self.claim.complete_to

    def options(
        self, table: str, *, part: str = "", last: bool = True, metadata: str = "{}"
    ) -> dict[str, str]:
        """Return the options of a write: the claim, and with Delta a transaction.

        Always write with these options, or the next batch ends the claim. Call `withdraw` for a
        batch that writes nothing. If a batch writes several times, give each write a `part`, and
        all but the last ``last=False``. `metadata` is a JSON object for the commit.

        Delta skips a repeated batch. For Iceberg, call `is_committed` before a write.
        """
        kind, _ = split_url(table)
        record, history = self._create_record(table, part, last=last)
        records = json.loads(metadata) | format_properties(history, record)
        if kind == "iceberg":
            return {f"{SNAPSHOT_PROPERTY}{key}": str(value) for key, value in records.items()}
        return {
            "userMetadata": json.dumps(records),
            "txnAppId": f"noted-time:{self.claim.name}:{self.claim.query}:{part}",
            "txnVersion": str(self.claim.batch),
        }

    def cover_windows(self, table: str, largest_ms: int | None) -> BatchClaim:
        """Return the claim with its `from_time` moved by the largest window.

        Without rows, `largest_ms` is `None`, and the previous `from_time` stays.
        """
        former_status = self.open(table).history().statuses().get(self.claim.name)
        from_time = None
        if former_status is not None and former_status.claim is not None:
            from_time = former_status.claim.from_time
        if self.bound is not None and largest_ms is not None:
            time_of_rows = shift_bound(self.bound, largest_ms)
            if from_time is None or time_of_rows > from_time:
                from_time = time_of_rows
        return replace(self, claim=replace(self.claim, from_time=from_time))

    def withdraw(self, table: str) -> None:
        """Record that this batch writes nothing, or nothing more, to the table.

        A batch that is neither written nor withdrawn ends the claim.
        """
        self.claims.memory(table).batches(self.run)
        self._withdraw(table)

    def is_committed(self, table: str, *, part: str = "") -> bool:
        self._histories[table] = history = self.open(table).history()
        return self._find_committed(table, history, replace(self.claim, part=part)) is not None

    def commit(self, table: str) -> None:
        """Commit the claim without rows, after writes in `writing`."""
        if not self.is_committed(table, part="commit"):
            self.open(table).commit(self.options(table, part="commit"))

    @contextmanager
    def writing(self, table: str, spark: SparkSession, *, part: str = "merge") -> Iterator[None]:
        """Mark the session's writes as this batch's, without a claim, for MERGE."""
        target_table = self.open(table)
        claim = replace(self.claim, part=part, complete_to=None, id=token_hex(8))
        history = target_table.history()
        memory = self.claims.memory(table).batches(self.run)
        committed_record = find_committed_part(history, claim, memory)
        record = prepare_commit(history, claim, memory, start_over=self.claims.start_over)
        record = replace(record, merges=True)
        self._keep(table, record)
        settings = {
            USER_METADATA: json.dumps({record.key: record.to_json()}),
            f"{SESSION_PROPERTY}{record.key}": record.to_json(),
        }
        former_settings = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, former_value in former_settings.items():
                if former_value is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, former_value)
        # MERGE does not commit if it changes no row
        written_ids: set[str] = set()
        for commit in target_table.history().commits:
            written_ids.update(written_record.id for written_record in commit.claims.values())
        if record.id in written_ids:
            return
        if committed_record is None:
            self._withdraw(table, part)
        else:
            self._keep(table, committed_record)

    def open(self, table: str) -> OpenTable:
        tables = self.claims.tables
        if table not in tables:
            tables[table] = open_table(table)
            days = read_retention_days(tables[table].history().properties)
            if days is not None and days < LEAST_DAYS:
                log.warning(SHORT_RETENTION, table, days, name_program(), LEAST_DAYS)
        return tables[table]

    def _find_committed(self, table: str, history: TableHistory, claim: Claim) -> Claim | None:
        remembered_batches = self.claims.memory(table).batches(self.run)
        committed_record = find_committed_part(history, claim, remembered_batches, run=self.run)
        if committed_record is not None:
            self._keep(table, committed_record)
        return committed_record

    def _create_record(self, table: str, part: str, *, last: bool) -> tuple[Claim, TableHistory]:
        claim = replace(self.claim, part=part, id=token_hex(8))
        if not last:
            claim = replace(claim, complete_to=None, continues=True)
        history = self._histories.pop(table, None) or self.open(table).history()
        record = self._find_committed(table, history, claim)
        if record is not None:
            return record, history
        remembered_batches = self.claims.memory(table).batches(self.run)
        record = prepare_commit(
            history, claim, remembered_batches, start_over=self.claims.start_over
        )
        if unkept := self._keep(table, record):
            record = replace(record, complete_to=None, ended=unkept)
        if record.ended:
            log.warning(
                "%s: the rows of batch %d are written without a claim under %r: %s. Check the "
                "table after this batch. If its rows are right, run `%s claim accept %s --name %s`",
                table,
                claim.batch,
                claim.name,
                record.ended,
                name_program(),
                table,
                claim.name,
            )
        return record, history

    def _keep(self, table: str, record: Claim) -> str:
        try:
            self.claims.memory(table).keep(record, self.run)
        except (OSError, NotedTimeError) as error:
            return NOT_KEPT.format(MEMORY_DIRECTORY, self.claims.checkpoint_location, error)
        return ""

    def _withdraw(self, table: str, part: str | None = None) -> None:
        try:
            self.claims.memory(table).withdraw(self.claim.batch, part)
        except (OSError, NotedTimeError) as error:
            why = NOT_KEPT.format(MEMORY_DIRECTORY, self.claims.checkpoint_location, error)
            log.warning("batch %d has no rows for %s: %s", self.claim.batch, table, why)


class RunningQuery(NamedTuple):
    """The query and run of a `foreachBatch`, or empty strings."""

    id: str = ""
    run: str = ""


def find_running_query() -> RunningQuery:
    spark = SparkSession.getActiveSession()
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return RunningQuery()
    query_id = context.getLocalProperty("sql.streaming.queryId") or ""
    run_id = context.getLocalProperty("spark.jobGroup.id") or ""
    return RunningQuery(query_id, run_id)


def format_plan(planned_batch: PlannedBatch) -> str:
    """Return a hash of a batch's ends and watermark, without the numbers of runs.

    >>> first = PlannedBatch("q", 7, 50, "min", ({"0": 5},))
    >>> format_plan(first) == format_plan(first), len(format_plan(first))
    (True, 16)
    """
    offsets = _strip_runs(planned_batch.offsets)
    text = json.dumps([offsets, planned_batch.watermark_ms], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def find_lower(offsets: Sequence[Any]) -> int | None:
    """Return the least lower of a query's sources, `None` if a source has none.

    >>> find_lower([{"noted_streams": {"a": {"mark": {"lower": 50}}}}, {"a": {"0": 5}}])
    50
    """
    for offset, marks in pair_with_marks(offsets):
        if offset is not None and not marks:
            return None
    lowers: list[int | None] = []
    for offset in offsets:
        if is_noted(offset):
            for stream in offset["noted_streams"].values():
                lowers.append(stream.get("mark", {}).get("lower"))
    return find_least(lowers)


def pair_with_marks(offsets: Sequence[Any]) -> Iterator[tuple[Any, Mapping[str, StreamFacts]]]:
    """Yield the offset of each source with rows, and the streams of its marks.

    >>> events, log = {"b": {"0": 5}}, {"noted_streams": {"c": {}}, "root": "/log"}
    >>> pairs = pair_with_marks([{"noted_streams": {"b": {}}}, events, events, log])
    >>> [(offset == events, list(streams)) for offset, streams in pairs]
    [(True, ['b']), (True, []), (False, ['c'])]
    """
    marked_streams: Mapping[str, StreamFacts] = {}
    for offset in offsets:
        streams = list_facts(offset) if is_noted(offset) else {}
        if is_of_marks(offset):
            marked_streams = streams
        else:
            yield offset, streams or marked_streams
            marked_streams = {}


def find_whole_from(offsets: Sequence[Any], begins_at_zero: Mapping[str, bool]) -> WholeFrom:
    """Return from when on a query has all rows, by its sources or else by their first offsets.

    >>> topic, noted = {"flights": {"0": 5}}, {"flights.noted": {"0": 2}}
    >>> found = [find_whole_from([noted, topic], {"flights": each}) for each in (True, False)]
    >>> found[0] == WHOLE_LOG, found[1].time
    (True, None)
    """
    return combine_whole(_list_whole(offsets, begins_at_zero))


def _list_whole(offsets: Sequence[Any], begins_at_zero: Mapping[str, bool]) -> Iterator[WholeFrom]:
    pairs = zip(pair_with_marks(offsets), check_covered(offsets), strict=True)
    for (offset, streams), is_covered in pairs:
        if not is_covered:
            continue
        topics = [""]
        if isinstance(offset, dict) and offset:
            topics = [topic for topic in offset if not _is_of_notes(topic)]
        starts_at_zero = all(begins_at_zero.get(topic) for topic in topics)
        whole_by_start = WHOLE_LOG if starts_at_zero else NOT_STATED
        if not streams:
            yield whole_by_start
        for facts in streams.values():
            yield facts.whole or whole_by_start


def _strip_run(offset: Any) -> Any:  # noqa: ANN401 - any JSON value
    return {**offset, "run": 0} if is_noted(offset) else offset


def _strip_runs(offsets: Sequence[Any]) -> list[Any]:
    return [_strip_run(offset) for offset in offsets]


def check_covered(offsets: Sequence[Any]) -> Iterator[bool]:
    """Yield for each source with rows, or with the records of a relay, whether it has marks.

    >>> events, noted = {"flights": {"0": 5}}, {"flights.noted": {"0": 2}}
    >>> list(check_covered([noted, events])), list(check_covered([events]))
    ([True, True], [False])
    """
    topics: set[str] = set()
    for offset in offsets:
        if isinstance(offset, dict):
            topics.update(offset)
    for offset, marks in pair_with_marks(offsets):
        if offset is None or marks:
            yield True
        else:
            is_of_topics = isinstance(offset, dict) and bool(offset)
            yield is_of_topics and all(_is_noted(topic, topics) for topic in offset)


def _is_noted(topic: str, topics: set[str]) -> bool:
    """Return whether a topic, or its topic of notes, is among the topics of its pair."""
    noted_topics = {name_noted_topic(other_topic) for other_topic in topics}
    return topic in noted_topics or name_noted_topic(topic) in topics


def _is_of_notes(topic: str) -> bool:
    return topic.endswith(name_noted_topic(""))


class SourceRead(NamedTuple):
    """The part of a stream in a batch: its ends by segment, `{}` if they are not known."""

    source: ClaimSource
    cut: Mapping[str, int]
    first_lower: int | None


def describe_read(planned_batch: PlannedBatch) -> Mapping[str, Any]:
    """Return the streams, domains and first marks of a batch; of one source, also the cut."""
    reads = list(_list_reads(planned_batch.offsets))
    cut: Mapping[str, int] = {}
    if len(reads) == 1:
        cut = reads[0].cut
    first_lowers: list[int | None] = []
    for source_read in reads:
        first_lower = source_read.first_lower
        if first_lower is not None:
            first_lower = shift_bound(first_lower, -source_read.source.lag_ms)
        first_lowers.append(first_lower)
    sources = join_sources([source_read.source for source_read in reads])
    return {**sources, "cut": cut, "first_lower": find_greatest(first_lowers)}


def _list_reads(offsets: Sequence[Any]) -> Iterator[SourceRead]:
    for offset, streams in pair_with_marks(offsets):
        if is_of_log(offset):
            for name, facts in streams.items():
                segments = offset["noted_streams"][name].get("segments", {})
                source = ClaimSource(name, facts.domain, facts.lag_ms)
                yield SourceRead(source, segments, facts.first_lower)
        elif streams:
            cut = _find_cut(offset) if len(streams) == 1 else {}
            for name, facts in streams.items():
                source = ClaimSource(name, facts.domain, facts.lag_ms)
                yield SourceRead(source, cut, facts.first_lower)
        elif isinstance(offset, dict):
            for topic, cut in offset.items():
                if isinstance(cut, dict) and not _is_of_notes(topic):
                    yield SourceRead(ClaimSource(topic, None), cut, None)


def _find_cut(offset: Any) -> Mapping[str, int]:  # noqa: ANN401 - any JSON value
    """Return the ends of the first topic of an offset, `{}` if it has another form."""
    if not isinstance(offset, dict):
        return {}
    cut: Any = next(iter(offset.values()), {})
    return cut if isinstance(cut, dict) else {}
