"""Claims: a micro-batch states that a table has all rows of a query below a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    - `controller_url`: the controller names missing writers, if it answers within a second.
    - `static_sources`: how many sources without marks do not affect completeness.
    - `start_over`: whether the query may take over the name from another query, once.
    - `strict`: only needed without state and with `read_relayed_kafka`.
    - `from_time`: states from when on the query has all rows, where its sources do not show it.
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
    controller_url: str | None = None
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
        running = find_running_query()
        if running.id not in {"", planned_batch.query_id}:
            raise Rejected(
                f"checkpoint_location={self.checkpoint_location!r} belongs to query "
                f"{planned_batch.query_id}, but this is query {running.id}: give TableClaims the "
                "checkpointLocation of this query"
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
        complete_to = None if whole_from.is_pending else complete_to
        bound = None if whole_from.time is None else shift_bound(whole_from.time, self.delay_ms)
        from_time = self._find_from_time(whole_from, bound, has_state=has_state)
        claim = Claim(self.name, complete_to, self.time_of, plan=plan, **from_time, **batch_fields)
        keeps_late_rows = self._find_whether_it_keeps_late_rows(batch_id, has_state=has_state)
        claim = replace(claim, keeps_late_rows=keeps_late_rows)
        return BatchClaim(self, self._add_writers(claim), running.run, bound)

    def _find_from_time(
        self, whole_from: WholeFrom, bound: int | None, *, has_state: bool
    ) -> dict[str, Any]:
        """Return from when on the rows are there: a window around `bound` lacks some.

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
        return True if batch_id else None

    def _find_complete_to(self, planned_batch: PlannedBatch, *, has_state: bool) -> int | None:
        """Return the claimed time of a batch: its watermark, or without state the lower."""
        watermark = planned_batch.watermark_ms
        if watermark is None:
            return None
        if not has_state:
            before = self._progress.read_batch(planned_batch.batch_id - 1)
            watermark += self.strict or find_lower(before.offsets) == watermark + 1
        return watermark - self.delay_ms

    def memory(self, table: str) -> Memory:
        """Return the query's records of its batches for a table."""
        return open_memory(self.checkpoint_location, self.name, table)

    def is_last(self, batch_id: int) -> bool:
        """Return whether a batch has neither new rows nor a new mark, only a claim."""
        if not batch_id:
            return False
        with suppress(Rejected):
            before, now = (
                self._progress.read_batch(batch_number) for batch_number in (batch_id - 1, batch_id)
            )
            return [*map(_strip_run, before.offsets)] == [*map(_strip_run, now.offsets)]
        return False

    def _add_writers(self, claim: Claim) -> Claim:
        if self.controller_url is None or claim.complete_to is None or len(claim.sources) != 1:
            return claim
        from noted_time.extending import Transport, run
        from reader_client.extending import ask_completeness, ask_stream, find_domain

        (source,) = claim.sources
        transport = Transport(self.controller_url, token=self.token, timeout_s=ASK_TIMEOUT_S)
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
        claim, (kind, _) = self.claim, split_url(table)
        record, history = self._create_record(table, part, last=last)
        records = json.loads(metadata) | format_properties(history, record)
        if kind == "iceberg":
            return {f"{SNAPSHOT_PROPERTY}{key}": str(value) for key, value in records.items()}
        return {
            "userMetadata": json.dumps(records),
            "txnAppId": f"noted-time:{claim.name}:{claim.query}:{part}",
            "txnVersion": str(claim.batch),
        }

    def cover_windows(self, table: str, largest_ms: int | None) -> BatchClaim:
        """Return the claim of rows with such windows, `None` without rows: as the claim before."""
        before = self.open(table).history().statuses().get(self.claim.name)
        from_times = (
            [before.claim.from_time] if before is not None and before.claim is not None else []
        )
        if self.bound is not None and largest_ms is not None:
            from_times.append(shift_bound(self.bound, largest_ms))
        from_time = max((time for time in from_times if time is not None), default=None)
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
        open_table = self.open(table)
        claim = replace(self.claim, part=part, complete_to=None, id=token_hex(8))
        history, memory = open_table.history(), self.claims.memory(table)
        remembered_batches = memory.batches(self.run)
        committed_record = find_committed_part(history, claim, remembered_batches)
        record = prepare_commit(
            history, claim, remembered_batches, start_over=self.claims.start_over
        )
        record = replace(record, merges=True)
        self._keep(table, record)
        delta = USER_METADATA, json.dumps({record.key: record.to_json()})
        iceberg = f"{SESSION_PROPERTY}{record.key}", record.to_json()
        before: dict[str, str | None] = {}
        for key, value in (delta, iceberg):
            before[key] = spark.conf.get(key, None)
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, former in before.items():
                spark.conf.unset(key) if former is None else spark.conf.set(key, former)
        # MERGE does not commit if it changes no row
        written_ids = {
            record.id
            for commit in open_table.history().commits
            for record in commit.claims.values()
        }
        if record.id not in written_ids:
            self._withdraw(table, part) if committed_record is None else self._keep(
                table, committed_record
            )

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
                *(table, claim.batch, claim.name, record.ended),
                *(name_program(), table, claim.name),
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
    context = getattr(spark, "sparkContext", None) if spark is not None else None
    if context is None:
        return RunningQuery()
    names = ("sql.streaming.queryId", "spark.jobGroup.id")
    return RunningQuery(*(context.getLocalProperty(name) or "" for name in names))


def format_plan(planned_batch: PlannedBatch) -> str:
    """Return a hash of a batch's ends and watermark, without the numbers of runs.

    >>> first = PlannedBatch("q", 7, 50, "min", ({"0": 5},))
    >>> format_plan(first) == format_plan(first), len(format_plan(first))
    (True, 16)
    """
    offsets = [*map(_strip_run, planned_batch.offsets)]
    text = json.dumps([offsets, planned_batch.watermark_ms], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def find_lower(offsets: Sequence[Any]) -> int | None:
    """Return the least lower of a query's sources, `None` if a source has none.

    >>> find_lower([{"noted_streams": {"a": {"mark": {"lower": 50}}}}, {"a": {"0": 5}}])
    50
    """
    streams = [
        stream
        for offset in offsets
        if is_noted(offset)
        for stream in offset["noted_streams"].values()
    ]
    lowers = [stream.get("mark", {}).get("lower") for stream in streams]
    has_marks = all(marks or offset is None for offset, marks in pair_with_marks(offsets))
    return min(lowers, default=None) if has_marks and None not in lowers else None


def pair_with_marks(offsets: Sequence[Any]) -> Iterator[tuple[Any, Mapping[str, StreamFacts]]]:
    """Yield the offset of each source with rows, and the streams of its marks.

    >>> events, log = {"b": {"0": 5}}, {"noted_streams": {"c": {}}, "root": "/log"}
    >>> pairs = pair_with_marks([{"noted_streams": {"b": {}}}, events, events, log])
    >>> [(each == events, list(streams)) for each, streams in pairs]
    [(True, ['b']), (True, []), (False, ['c'])]
    """
    marks: Mapping[str, StreamFacts] = {}
    for offset in offsets:
        streams = list_facts(offset) if is_noted(offset) else {}
        if is_of_marks(offset):
            marks = streams
        else:
            yield offset, streams or marks
            marks = {}


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
        if is_covered:
            topics = [*offset] if isinstance(offset, dict) and offset else [""]
            starts_at_zero = [
                begins_at_zero.get(topic)
                for topic in topics
                if not topic.endswith(name_noted_topic(""))
            ]
            by_start = WHOLE_LOG if all(starts_at_zero) else NOT_STATED
            stated_wholes = [facts.whole for facts in streams.values()]
            yield from (whole_from or by_start for whole_from in stated_wholes or [None])


def _strip_run(offset: Any) -> Any:  # noqa: ANN401 - any JSON value
    return {**offset, "run": 0} if is_noted(offset) else offset


def check_covered(offsets: Sequence[Any]) -> Iterator[bool]:
    """Yield for each source with rows, or with the records of a relay, whether it has marks.

    >>> events, noted = {"flights": {"0": 5}}, {"flights.noted": {"0": 2}}
    >>> list(check_covered([noted, events])), list(check_covered([events]))
    ([True, True], [False])
    """
    topics = {name for offset in offsets if isinstance(offset, dict) for name in offset}
    for offset, marks in pair_with_marks(offsets):
        is_topic_noted = (
            isinstance(offset, dict)
            and bool(offset)
            and all(_is_noted(topic, topics) for topic in offset)
        )
        yield offset is None or bool(marks) or is_topic_noted


def _is_noted(topic: str, topics: set[str]) -> bool:
    return name_noted_topic(topic) in topics or any(
        name_noted_topic(rows_topic) == topic for rows_topic in topics
    )


def describe_read(planned_batch: PlannedBatch) -> Mapping[str, Any]:
    """Return the streams, domains and first marks of a batch; of one source, also the cut."""
    reads = [*_list_reads(planned_batch.offsets)]
    cut = reads[0][1] if len(reads) == 1 else {}
    firsts = [
        shift_bound(first_lower, -source.lag_ms)
        for source, _, first_lower in reads
        if first_lower is not None
    ]
    first = max(firsts) if firsts and len(firsts) == len(reads) else None
    return {**join_sources(source for source, *_ in reads), "cut": cut, "first_lower": first}


def _list_reads(
    offsets: Sequence[Any],
) -> Iterator[tuple[ClaimSource, Mapping[str, int], int | None]]:
    for offset, streams in pair_with_marks(offsets):
        if is_of_log(offset):
            for name, facts in streams.items():
                segments = offset["noted_streams"][name].get("segments", {})
                yield ClaimSource(name, facts.domain, facts.lag_ms), segments, facts.first_lower
        elif streams:
            cut: Any = next(iter(offset.values()), {}) if isinstance(offset, dict) else {}
            is_cut = isinstance(cut, dict) and len(streams) == 1
            for name, facts in streams.items():
                source = ClaimSource(name, facts.domain, facts.lag_ms)
                yield source, cut if is_cut else {}, facts.first_lower
        elif isinstance(offset, dict):
            topics = {
                topic: position
                for topic, position in offset.items()
                if not topic.endswith(name_noted_topic(""))
            }
            for topic, position in topics.items():
                if isinstance(position, dict):
                    yield ClaimSource(topic, None), position, None
