"""What a micro-batch may claim of the table that it is written to."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from noted_time import NotedTimeError, Rejected
from noted_time.kafka.noted_topic import name_noted_topic
from noted_time.reading import (
    TableHistory,
    WholeFrom,
    combine_whole,
    find_committed_part,
    prepare_commit,
)
from noted_time.tables.table_urls import split_url
from noted_time.values import (
    RESERVED_NAMES,
    VALID_THROUGH,
    VOUCHED_FIELDS,
    Claim,
    check_least,
    read_retention_days,
    validate_name,
)
from spark_integration.checkpoint.query_progress import PlannedBatch, QueryProgress
from spark_integration.marks.released import is_of_log, is_of_marks, whole_from_json
from spark_integration.tables.formats import OpenTable, open_table
from spark_integration.tables.memory import MEMORY_DIRECTORY, Memory, open_memory

log = logging.getLogger("noted_time.spark")

ASK_TIMEOUT_S = 1.0
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
SNAPSHOT_PROPERTY = "snapshot-property."
SESSION_PROPERTY = "spark.sql.iceberg.snapshot-property."

NOT_KEPT = "{}/ in the checkpoint {} cannot be written ({}), so no later batch could prove this one"
LEAST_DAYS = 7
SHORT_RETENTION = (
    "%s keeps its commits for %g days: a query that is down or quiet for longer finds none of its "
    "own and claims nothing more until `noted-time claim accept`. Have the table keep %d days"
)
NOT_COVERED = (
    "{} of the query's sources have no marks, so nobody vouches for their rows: read them with "
    "noted-time, or, if their rows never change what is complete (a table that is looked up), say "
    "so with static_sources={}"
)


@dataclass
class TableClaims:
    """The claims of a query whose checkpoint is at `checkpoint_location`, under a `name`.

    `time_of` is the column of the table that the claims are about: the event time, or the end of a
    window; not its start, since the rows of a window come when it ends. `delay_ms` is how long
    after the watermark rows of a time may still come, as of operators with timers and of interval
    joins. `static_sources` is the number of sources without marks whose rows change nothing.

    With a `controller_url` each claim names the missing writers, if the controller answers within a
    second. With `start_over` the query takes the name over from another one, once. `strict` says
    that the watermark is 1 ms below the time of the marks, where the offset log does not: for marks
    as a topic. It counts for queries without state only.

    Raises `InvalidName` for a name and `Rejected` for a checkpoint that cannot be read, and for the
    start of a window.
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

    def __post_init__(self) -> None:
        validate_name("table claim", self.name)
        if self.name in RESERVED_NAMES:
            raise Rejected(f"no table claim may be named {self.name!r}: choose another name")
        if self.time_of.endswith("window.start"):
            raise Rejected(
                f"time_of={self.time_of!r} is the start of a window, whose rows come when it ends: "
                "a claim would be ahead of them; name the column of its end"
            )
        check_least("delay_ms", self.delay_ms, 0)
        self._progress = QueryProgress(self.checkpoint_location)
        self.tables: dict[str, OpenTable] = {}

    def of(self, batch_id: int) -> BatchClaim:
        """Return the claim of a micro-batch, the same whenever the batch runs again.

        Raises `Rejected` if the query has sources without marks, takes the greatest of several
        watermarks, or is not that of the checkpoint.
        """
        planned = self._progress.read_batch(batch_id)
        running = find_running_query()
        if running.id not in {"", planned.query_id}:
            raise Rejected(
                f"checkpoint_location={self.checkpoint_location!r} is that of query "
                f"{planned.query_id}, and this is query {running.id}: give TableClaims the "
                "checkpointLocation of the query that calls it"
            )
        if planned.watermark_policy != "min":
            raise Rejected(
                "spark.sql.streaming.multipleWatermarkPolicy=max: rows of the slower source come "
                "below the watermark, so nothing can be claimed; leave it at min"
            )
        uncovered = sum(not each for each in check_covered(planned.offsets))
        if uncovered > self.static_sources:
            raise Rejected(NOT_COVERED.format(uncovered, uncovered))
        where = {"query": planned.query_id, "batch": planned.batch_id, **describe_read(planned)}
        complete_to, plan = self._find_complete_to(planned), format_plan(planned)
        whole = find_whole_from(planned.offsets)
        complete_to = None if whole.is_pending else complete_to
        claim = Claim(self.name, complete_to, self.time_of, plan=plan, since=whole.time, **where)
        return BatchClaim(self, self._add_writers(claim), running.run)

    def _find_complete_to(self, planned: PlannedBatch) -> int | None:
        """Return to what a batch completes the table: the lower itself, if that is known.

        Spark emits a window once the watermark has reached its end, so with state it is the
        watermark. Without, all rows below the lower are there, and nothing waits for it.
        """
        watermark = planned.watermark_ms
        if watermark is None:
            return None
        if not self._progress.has_state():
            before = self._progress.read_batch(planned.batch_id - 1)
            watermark += self.strict or find_lower(before.offsets) == watermark + 1
        return watermark - self.delay_ms

    def memory(self, table: str) -> Memory:
        """Return what the query keeps of the batches that it writes to a table."""
        return open_memory(self.checkpoint_location, self.name, table)

    def is_last(self, batch_id: int) -> bool:
        """Whether a batch was planned for the claim alone: nothing was read, and no mark is new."""
        if not batch_id:
            return False
        with suppress(Rejected):
            before, now = (self._progress.read_batch(each) for each in (batch_id - 1, batch_id))
            return [*map(_strip_run, before.offsets)] == [*map(_strip_run, now.offsets)]
        return False

    def _add_writers(self, claim: Claim) -> Claim:
        """Return a claim with who vouches and who is missing, if a controller can be asked."""
        if self.controller_url is None or claim.complete_to is None or "," in claim.stream:
            return claim
        from noted_time.client import missing_from_wire  # noqa: PLC0415 - HTTP is slow to import
        from noted_time.client.transport import Transport  # noqa: PLC0415
        from reader_client.protocol.questions import ask_cut  # noqa: PLC0415

        question = ask_cut(claim.stream, claim.complete_to, claim.domain or None)
        transport = Transport(self.controller_url, token=self.token, timeout_s=ASK_TIMEOUT_S)
        try:
            found = transport.ask(question)
        except NotedTimeError as error:
            log.warning("the claim of batch %d names no missing writers: %s", claim.batch, error)
            return claim
        finally:
            transport.close()
        missing, by = missing_from_wire(found), found["vouched"]
        named = tuple(each.writer for each in missing.writers if not each.joined_later)
        return replace(
            claim,
            missing=named if named or missing.is_known else None,
            vouched={key: by[key] for key in VOUCHED_FIELDS},
        )


@dataclass(frozen=True)
class BatchClaim:
    """The claim of one micro-batch, for the writes of that batch.

    The methods name a table by its URL, ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``. The claim
    is withheld, with a warning, if the last one of the name has ended, or if the table does not
    show all earlier batches of the query. Raises `Rejected` if the table has a later batch of the
    query, or this one with other content, and if one run writes a part of a batch twice.
    """

    claims: TableClaims
    claim: Claim
    run: str = ""
    _looked: dict[str, TableHistory] = field(default_factory=dict, init=False, repr=False)

    @property
    def complete_to(self) -> int | None:
        """Below which time (Unix ms) all rows are in the table, `None` without a watermark."""
        return self.claim.complete_to

    def delta_options(
        self, table: str | None = None, *, part: str = "", last: bool = True, metadata: str = "{}"
    ) -> dict[str, str]:
        """Return the options of a write to Delta: the claim, and a transaction of its own.

        If a batch writes to a table several times, each write names its `part`, and the claim goes
        with the `last` one. Without the table there is no claim. What takes options has to be
        written: the next batch finds out, and the claim ends. `metadata` is the user's own, a JSON
        object.
        """
        claim = self.claim
        transaction = f"noted-time:{claim.name}:{claim.query}:{part}"
        records = self._build_properties(table, part, last=last)
        return {
            "userMetadata": json.dumps({**json.loads(metadata), **records}),
            "txnAppId": transaction,
            "txnVersion": str(claim.batch),
        }

    def iceberg_options(
        self, table: str | None = None, *, part: str = "", last: bool = True
    ) -> dict[str, str]:
        """Return the options of a write to Iceberg: the claim as properties of the snapshot.

        Iceberg has no transactions of applications: ask `is_committed` before a write.
        """
        records = self._build_properties(table, part, last=last)
        return {f"{SNAPSHOT_PROPERTY}{key}": value for key, value in records.items()}

    def options(self, table: str, *, part: str = "") -> dict[str, str]:
        """Return the options of a write to a table, by what it is one of."""
        kind, _ = split_url(table)
        options = self.delta_options if kind == "delta" else self.iceberg_options
        return options(table, part=part)

    def begin(self, table: str) -> None:
        """Keep that this batch has yet to be written, before anything about it may fail.

        If it never is, and was not withdrawn either, the next batch finds that out.
        """
        kept = self.claims.memory(table).batches(self.run)
        if all(each.batch != self.claim.batch for each in kept):
            self._keep(table, replace(self.claim, id=token_hex(8)), run="")

    def withdraw(self, table: str) -> None:
        """Keep no longer that this batch has yet to be written: it has no rows."""
        self.claims.memory(table).withdraw(self.claim.batch)

    def is_committed(self, table: str, *, part: str = "") -> bool:
        """Whether this part of the batch is in the table already, by an earlier run."""
        self._looked[table] = history = self.open(table).history()
        return self._find_committed(table, history, replace(self.claim, part=part)) is not None

    def commit(self, table: str) -> None:
        """Commit the claim without rows, after writes of this batch that do not carry it.

        Wrap changes of rows, such as MERGE, in `writing`; otherwise they end the claim.
        """
        if not self.is_committed(table, part="commit"):
            self.open(table).commit(self.options(table, part="commit"))

    @contextmanager
    def writing(self, table: str, spark: SparkSession, *, part: str = "merge") -> Iterator[None]:
        """Mark what the session writes meanwhile as this batch's, without a claim: for MERGE."""
        opened = self.open(table)
        claim = replace(self.claim, part=part, complete_to=None, id=token_hex(8))
        history, memory = opened.history(), self.claims.memory(table)
        known = memory.batches(self.run)
        find_committed_part(history, claim, known)
        record = prepare_commit(history, claim, known, start_over=self.claims.start_over)
        record = replace(record, merges=True)
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
        # a MERGE that changes no row need not commit, so it is kept only if it has
        if any(
            record.id == each.id for c in opened.history().commits for each in c.claims.values()
        ):
            self._keep(table, record)

    def open(self, table: str) -> OpenTable:
        """Return the table, opened once for all batches."""
        tables = self.claims.tables
        if table not in tables:
            tables[table] = open_table(table)
            days = read_retention_days(tables[table].history().properties)
            if days is not None and days < LEAST_DAYS:
                log.warning(SHORT_RETENTION, table, days, LEAST_DAYS)
        return tables[table]

    def _find_committed(self, table: str, history: TableHistory, claim: Claim) -> Claim | None:
        """Return the record of this part that an earlier run committed, and keep it."""
        known = self.claims.memory(table).batches(self.run)
        found = find_committed_part(history, claim, known, run=self.run)
        if found is not None:
            self._keep(table, found)
        return found

    def _create_record(self, table: str, part: str, *, last: bool) -> tuple[Claim, TableHistory]:
        """Return the record, which is kept before it is written, and the history it follows."""
        claim = replace(self.claim, part=part, id=token_hex(8))
        if not last:
            claim = replace(claim, complete_to=None)
        history = self._looked.pop(table, None) or self.open(table).history()
        found = self._find_committed(table, history, claim)
        if found is not None:
            return found, history
        known = self.claims.memory(table).batches(self.run)
        found = prepare_commit(history, claim, known, start_over=self.claims.start_over)
        if unkept := self._keep(table, found):
            found = replace(found, complete_to=None, ended=unkept)
        if found.ended:
            log.warning(
                "%s: the rows of batch %d are written without a claim under %r: %s. Look at what "
                "happened; if the table is right, run `noted-time claim accept %s --name %s`",
                *(table, claim.batch, claim.name, found.ended, table, claim.name),
            )
        return found, history

    def _keep(self, table: str, record: Claim, *, run: str | None = None) -> str:
        """Keep a record beside the checkpoint; returns why that is not possible, `""` if it is."""
        try:
            self.claims.memory(table).keep(record, self.run if run is None else run)
        except (OSError, NotedTimeError) as error:
            return NOT_KEPT.format(MEMORY_DIRECTORY, self.claims.checkpoint_location, error)
        return ""

    def _build_properties(self, table: str | None, part: str, *, last: bool) -> dict[str, str]:
        """Return what the commit is to carry: the record, and what Iceberg's own sink writes.

        The latter only if the claims of all expected names hold, as for other readers.
        """
        if table is None:
            return {}
        claim, history = self._create_record(table, part, last=last)
        records = {claim.key: claim.to_json()}
        if claim.complete_to is not None:
            times = {**claim.names, claim.name: claim.complete_to}
            expects = history.expects or (times if len(times) == 1 else ())
            known = [times.get(name) for name in expects]
            least = min((time for time in known if time is not None), default=None)
            if least is not None and None not in known:
                records[VALID_THROUGH] = str(least)
        return records


class RunningQuery(NamedTuple):
    """The query in whose `foreachBatch` this is called, and its run; empty outside of one."""

    id: str = ""
    run: str = ""


def find_running_query() -> RunningQuery:
    """Return the query that calls, by Spark's local properties, which Connect has not."""
    spark = SparkSession.getActiveSession()
    context = getattr(spark, "sparkContext", None) if spark is not None else None
    if context is None:
        return RunningQuery()
    names = ("sql.streaming.queryId", "spark.jobGroup.id")
    return RunningQuery(*(context.getLocalProperty(name) or "" for name in names))


def format_plan(planned: PlannedBatch) -> str:
    """Return what names the content of a batch: its ends, without the count of starts.

    >>> first = PlannedBatch("q", 7, 50, "min", ({"0": 5},))
    >>> format_plan(first) == format_plan(first), len(format_plan(first))
    (True, 16)
    """
    offsets = [*map(_strip_run, planned.offsets)]
    text = json.dumps([offsets, planned.watermark_ms], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def find_lower(offsets: Sequence[Any]) -> int | None:
    """Return the lower that the sources of ours let in, the least; `None` if one tells none.

    >>> find_lower([{"noted_marks": "a", "streams": {"a": {"mark": {"lower": 50}}}},
    ...     {"a": {"0": 5}}])
    50
    >>> find_lower([{"a": {"0": 5}}, {"a.noted": {"0": 2}}]) is None
    True
    """
    lowers: list[int | None] = []
    follows = False
    for each in offsets:
        if is_of_log(each):
            lowers += [mark["lower"] for name, mark in each["marks"].items() if "/" not in name]
        elif is_of_marks(each):
            lowers += [admitted["mark"]["lower"] for admitted in each["streams"].values()]
        elif not follows and each is not None:
            return None
        follows = is_of_marks(each)
    known = [lower for lower in lowers if lower is not None]
    return min(known) if known and known == lowers else None


def find_whole_from(offsets: Sequence[Any]) -> WholeFrom:
    """Return from when on the sources of a query lack no row.

    >>> find_whole_from([{"noted_marks": "a", "streams": {"a": {"whole": {"time": 50}}}},
    ...     {"a": {}}]).time
    50
    """
    ours = (each["streams"].values() for each in offsets if is_of_marks(each))
    return combine_whole(whole_from_json(each) for streams in ours for each in streams)


def _strip_run(offset: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return what an offset says apart from the count of its starts."""
    return {**offset, "run": 0} if is_of_log(offset) or is_of_marks(offset) else offset


def check_covered(offsets: Sequence[Any]) -> Iterator[bool]:
    """Yield for each source of a query whether marks cover it.

    >>> events, noted = {"flights": {"0": 5}}, {"flights.noted": {"0": 2}}
    >>> list(check_covered([noted, events])), list(check_covered([{"noted_marks": "flights"},
    ...     events, events]))
    ([True, True], [True, True, False])
    """
    topics = {name for each in offsets if isinstance(each, dict) for name in each}
    follows = False
    for each in offsets:
        own = is_of_log(each) or is_of_marks(each)
        noted = isinstance(each, dict) and bool(each) and all(_is_noted(t, topics) for t in each)
        yield each is None or own or noted or follows
        follows = is_of_marks(each)


def _is_noted(topic: str, topics: set[str]) -> bool:
    return name_noted_topic(topic) in topics or any(name_noted_topic(t) == topic for t in topics)


def describe_read(planned: PlannedBatch) -> Mapping[str, Any]:
    """Return stream, domain and cut of a batch, as far as its offsets say: of one stream only."""
    found: dict[str, Any] = {}
    follows = None
    for each in planned.offsets:
        if is_of_log(each):
            marks = [name for name in each["marks"] if not name.startswith("_")]
            domain = marks[0] if len(marks) == 1 else ""
            found[each["noted_log"]] = (domain, each["segments"])
        elif follows is not None:
            cut: Any = next(iter(each.values()), {}) if isinstance(each, dict) else {}
            found[follows] = ("", cut if isinstance(cut, dict) else {})
        elif isinstance(each, dict) and not is_of_marks(each):
            topics = {t: at for t, at in each.items() if not t.endswith(name_noted_topic(""))}
            found |= {topic: ("", at) for topic, at in topics.items() if isinstance(at, dict)}
        follows = each["noted_marks"] if is_of_marks(each) else None
    streams = ",".join(sorted(found))
    domain, cut = next(iter(found.values())) if len(found) == 1 else ("", {})
    return {"stream": streams, "domain": domain, "cut": cut}
