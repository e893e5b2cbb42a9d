"""A model of batch jobs in three hops, whose tables others change meanwhile, and the truth.

The jobs copy rows, so a row of a query keeps its name and place in each hop. A claim of T is true
if the table has every row below T of the source versions in its record, and of the queries behind
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from random import Random

from msgspec.structs import replace

from noted_time.values import Rejected
from noted_time_extensions.tables import Pin
from noted_time_extensions.tables import pins as rules
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import build_acceptance
from noted_time_extensions.tables.table_history import Change, ClaimStatus, TableHistory
from noted_time_extensions.tables.tests.support.table_model import Query, Row, World

Rows = frozenset[Row]

JOBS = ("full", "merge", "append", "replace", "drop")
"""Jobs that leave a table as a first run over their sources does."""

INCREMENTAL_JOB = "newest"
"""A job that adds the rows above the newest time in its table."""


class Table(World):
    """A table that knows the rows of each of its commits.

    A backup that is restored while a job runs hides a change. So the table is not restored or
    recreated after a change.
    """

    in_job = False
    moves = 0

    def follow(self, *sources: Table) -> None:
        """Read these sources, if the table is a job's."""
        self.sources = sources
        self.rows_of: list[tuple[object, Rows]] = []
        self.evidence: dict[str, tuple[Rows, Rows]] = {}

    @property
    def name(self) -> str:
        return self.queries[0].name

    def commit(self, change: Change, rows: Iterable[Row], *claims: Claim) -> None:
        self.moves += change == "other"
        super().commit(change, rows, *claims)
        self.rows_of.append((self.state.commits[-1], self.state.rows))

    def number(self, commit: int) -> int:
        """Return the version as a reader finds it."""
        return commit

    def version_rows(self, version: int) -> Rows:
        """Return the rows of a version that leads to the present state."""
        version_rows: set[Row] = set()
        for commit in self.state.commits:
            if self.number(commit.id) != version:
                continue
            for known_commit, rows in self.rows_of:
                if known_commit is commit:
                    version_rows |= rows
        return frozenset(version_rows)

    def _move(self, act: Callable[[], None]) -> None:
        if not (self.in_job and self.moves):
            self.moves += 1
            act()

    def put_back(self) -> None:
        self._move(super().put_back)

    def roll_back(self) -> None:
        """Make an earlier snapshot the current one, which Iceberg logs."""
        self.moves += 1
        super().roll_back()
        *before, last = self.state.commits
        self.ids += 1
        repeated_commit = replace(last, current_since=self.ids)
        self.rows_of.append((repeated_commit, self.state.rows))
        self.state = replace(self.state, commits=(*before, repeated_commit))

    def make_again(self) -> None:
        self._move(super().make_again)

    def bother(self) -> None:
        """Let others change the table."""
        if not self.state.commits:
            return
        fates: dict[Callable[[], None], int] = {
            self.disturb: 8,
            self.put_back: 4,
            self.make_again: 2,
            self.expire: 2,
            self.leave_gap: 1,
        }
        self.chance.choices([*fates], [*fates.values()])[0]()

    def time(self, row: Row) -> int:
        """Return the time of a row; rows of others have a time above all claims."""
        return self.times.get(row, 1000)

    @cached_property
    def times(self) -> Mapping[Row, int]:
        """The time of every row of the queries behind the table."""
        times: dict[Row, int] = {}
        for source in self.sources:
            times.update(source.times)
        if self.sources:
            return times
        for query in self.queries:
            for place, time in enumerate(query.times):
                times[query.name, place] = time
        return times

    def find_excused(self, record: str) -> Rows:
        """Return the rows that an operator accepted as missing."""
        if self.sources:
            return self.evidence[record][1]
        excused_rows: set[Row] = set()
        for query in self.queries:
            for places in query.excused.values():
                excused_rows.update((query.name, place) for place in places)
        return frozenset(excused_rows)


class JobTable(Table):
    """A table that a job writes, and that inherits from its sources."""

    delay = 0

    def run_job(self, kind: str, *, is_calm: bool = False) -> None:
        """Pin, read, write and inherit; others change the tables in between."""
        states_before = [(table, table.in_job) for table in (self, *self.sources)]
        for table, was_in_job in states_before:
            table.in_job = True
            if not was_in_job:
                table.moves = 0
        pins = [self._pin(source) for source in self.sources]
        source_rows = self._read_sources(is_calm=is_calm)
        self._write(kind, source_rows)
        version = self.history().version
        has_others = not is_calm and self.chance.random() < 0.4
        self.moves = 1  # the number that the job wrote is of one commit
        if has_others:
            self._let_others_act()
        is_told = has_others or self.chance.random() < 0.5
        known_pins = [pin for pin in pins if pin]
        for _ in range(self.chance.choice([1, 1, 2])):
            if len(known_pins) == len(pins):
                self._inherit(known_pins, version if is_told else None, is_calm=is_calm)
        for table, was_in_job in states_before:
            table.in_job = was_in_job

    def _read_sources(self, *, is_calm: bool) -> Rows:
        """Return the rows of the sources; others act before and after each is read."""
        if not is_calm:
            self._let_others_act()
        rows: set[Row] = set()
        for source in self.sources:
            rows |= source.state.rows
            if not is_calm:
                self._let_others_act()
        return frozenset(rows)

    def _pin(self, source: Table) -> Pin | None:
        try:
            return Pin.parse(str(Pin.of(f"delta:{source.name}", source.history())))
        except Rejected:
            return None

    def _let_others_act(self) -> None:
        for table in [self, *self.sources]:
            fate = self.chance.random()
            if fate < 0.15:
                table.bother()
            elif fate < 0.5 and not table.sources:
                table.run(table.queries[0])
            elif fate < 0.3 and isinstance(table, JobTable) and table is not self:
                table.run_job(self.chance.choice(["full", "merge", "append"]), is_calm=True)

    def _write(self, kind: str, rows: Rows) -> None:
        if kind == "drop":
            self.drop()
        before = self.state.rows
        if not self.state.commits:
            self.commit("append", rows)
        elif kind == "full":
            self.commit("other", rows)
        elif kind == "merge":
            self.commit("other", before | rows)
        elif kind == "append":
            self.commit("append", rows - before)
        elif kind == "replace":
            self.commit("other", before - rows)
            self.commit("append", rows)
        else:
            newest = max((self.time(row) for row in before if row[0]), default=-1)
            self.commit("append", [row for row in rows if self.time(row) > newest])

    def _inherit(self, pins: Sequence[Pin], version: int | None, *, is_calm: bool) -> None:
        histories: dict[Pin, TableHistory] = {}
        for pin, source in zip(pins, self.sources, strict=True):
            histories[pin] = source.history()
        try:
            record = rules.build_inheritance(
                self.name,
                self.history(),
                self.name,
                "id",
                histories,
                delay_ms=self.delay,
                at=version,
            )
        except Rejected:
            return
        if record.id:
            return
        record = replace(record, id=self.new_id())
        self._remember(record)
        if not is_calm and self.chance.random() < 0.2:
            self.bother()
        self.commit("append", (), record)

    def _remember(self, record: Claim) -> None:
        rows: set[Row] = set()
        excused_rows: set[Row] = set()
        for source in self.sources:
            for inherited_claim in record.inherits:
                if inherited_claim.table == f"delta:{source.name}":
                    rows |= source.version_rows(inherited_claim.version)
                    excused_rows |= source.find_excused(inherited_claim.records[0])
        self.evidence[record.id] = frozenset(rows), frozenset(excused_rows)

    def accept_as_is(self) -> None:
        """Let an operator accept the table; the rows that it lacks are excused."""
        history = self.history()
        try:
            records = build_acceptance(history, "looked", at=history.version or 0)
        except Rejected:
            return
        for record_given in records:
            record = replace(record_given, id=self.new_id())
            self.evidence[record.id] = frozenset(), frozenset(self.times.keys() - self.state.rows)
            self.commit("append", (), record)

    def find_lacking(self) -> Sequence[Row]:
        """Return the rows below its claimed time that the table lacks."""
        status = self.history().statuses().get(self.name, ClaimStatus())
        if status.complete_to is None or status.claim is None:
            return []
        named_rows, excused_rows = self.evidence[status.claim.id]
        wanted_rows = (named_rows | (self.times.keys() - excused_rows)) - self.state.rows
        return [row for row in sorted(wanted_rows) if self.time(row) < status.complete_to]


class Pipeline:
    """Two tables of queries, a table of the first one, and one of that and of the second."""

    def __init__(
        self, chance: Random, build: Callable[[str, type[Table]], Table], jobs: Sequence[str] = JOBS
    ) -> None:
        self.chance = chance
        self.jobs = jobs
        names = {"a": Table, "b": Table, "silver": JobTable, "gold": JobTable}
        self.tables = [build(name, kind) for name, kind in names.items()]
        first, second, silver, gold = self.tables
        first.follow()
        second.follow()
        silver.follow(first)
        gold.follow(silver, second)
        self.hops = [table for table in self.tables if isinstance(table, JobTable)]
        for hop in self.hops:
            hop.delay = chance.choice([0, 0, 7])

    def begin(self) -> None:
        """Give each query a few batches, and let each job run."""
        for table in self.tables[:2]:
            for _ in range(self.chance.randrange(1, 6)):
                table.run_calmly(table.queries[0])
        for hop in self.hops:
            hop.run_job(self.chance.choice(self.jobs), is_calm=True)
        for table in self.tables:
            table.save()

    def act(self) -> None:
        """Let a query, a job, an operator or others act."""
        fate = self.chance.random()
        hop = self.chance.choice(self.hops)
        if fate < 0.5:
            table = self.chance.choice(self.tables[:2])
            table.act(is_benign=bool(table.state.commits) and self.chance.random() < 0.5)
        elif fate < 0.85:
            hop.run_job(self.chance.choice(self.jobs))
        elif fate < 0.95:
            hop.bother()
        else:
            hop.accept_as_is()
        for job_table in self.hops:
            job_table.save()

    def find_false_claims(self) -> list[str]:
        """Return which tables lack rows that they claim."""
        false_claims = []
        for hop in self.hops:
            lacking_rows = hop.find_lacking()
            if lacking_rows:
                false_claims.append(f"{hop.name}: {lacking_rows}")
        return false_claims


def build_model(chance: Random, *, is_numbered: bool) -> Callable[[str, type[Table]], Table]:
    def build(name: str, kind: type[Table]) -> Table:
        return kind(chance, is_numbered, [Query(name, chance)])

    return build
