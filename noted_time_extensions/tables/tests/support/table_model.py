"""A model of a table, a query and its checkpoint, their faults, and the truth.

A query's source is a list of times, and a batch reads a span of places. From each place on, no time
is below the lower of that place, so no row is late. A claim of T is true if the table has every
place with a time below T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from noted_time.values import Rejected
from noted_time_extensions.tables import committing as rules
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import (
    RememberedBatch,
    build_acceptance,
    prepare_commit,
    remember_record,
)
from noted_time_extensions.tables.table_history import Change, Commit, TableHistory

Row = tuple[str, int]
"""The name of the query, and the place in its source."""

LENGTH = 60


class State(Struct, frozen=True):
    """A table at one moment: its kept and deleted commits, and its rows."""

    table: str = ""
    commits: tuple[Commit, ...] = ()
    rows: frozenset[Row] = frozenset()
    kept_from: int = 0
    hidden: frozenset[int] = frozenset()

    @property
    def kept(self) -> list[Commit]:
        return [commit for commit in self.commits[self.kept_from :] if commit.id not in self.hidden]


class Batch(Struct, frozen=True):
    """A planned batch: the places it reads, and the time that it completes."""

    begin: int
    end: int
    complete_to: int | None

    @property
    def plan(self) -> str:
        """The id of its content."""
        return f"{self.begin}-{self.end}"


class Checkpoint(Struct, frozen=True):
    """The batches that a query has planned, finished and remembered."""

    planned: tuple[Batch, ...] = ()
    finished: int = 0
    memory: tuple[RememberedBatch, ...] = ()

    def keeping(self, record: Claim) -> Checkpoint:
        """Return a checkpoint that remembers the record."""
        return replace(self, memory=remember_record(self.memory, record))


class Query:
    """A query under a name, which may be started over as another."""

    def __init__(self, name: str, chance: Random) -> None:
        self.name = name
        self.chance = chance
        self.times = sorted(chance.randrange(100) for _ in range(LENGTH))
        for place in range(LENGTH - 1):
            if chance.random() < 0.4:
                after = min(place + chance.randrange(1, 5), LENGTH - 1)
                self.times[place], self.times[after] = self.times[after], self.times[place]
        self.generation = 0
        self.checkpoint = Checkpoint()
        self.saved = [self.checkpoint]
        self.reached: dict[str, int] = {}
        self.excused: dict[str, set[int]] = {}
        self.start_over = False

    @property
    def id(self) -> str:
        return f"{self.name}{self.generation}"

    def lower(self, place: int) -> int:
        """Return the least time of the rows from a place on."""
        return min(self.times[place:], default=1000)

    def plan(self) -> Batch:
        """Return the batch that runs: the last planned one, if not finished."""
        checkpoint = self.checkpoint
        if len(checkpoint.planned) == checkpoint.finished:
            begin = checkpoint.planned[-1].end if checkpoint.planned else 0
            end = min(begin + self.chance.randrange(3), LENGTH)
            batch = Batch(begin, end, self.lower(end) if checkpoint.planned else None)
            self.checkpoint = replace(checkpoint, planned=(*checkpoint.planned, batch))
        return self.checkpoint.planned[-1]

    def claim(self, batch: Batch, id: str) -> Claim:  # noqa: A002 - as the claim's
        """Return the claim of the batch that runs."""
        number = len(self.checkpoint.planned) - 1
        complete_to = batch.complete_to
        plan = batch.plan
        return Claim(self.name, complete_to, "time", self.id, number, id=id, plan=plan)

    def finish(self, claim: Claim) -> None:
        self.checkpoint = replace(self.checkpoint, finished=claim.batch + 1)

    def begin_again(self) -> None:
        """Take a new checkpoint, and take over the name."""
        self.generation += 1
        self.start_over = True
        self.checkpoint = Checkpoint()
        self.saved = [Checkpoint()]


@dataclass
class World:
    """One table, its queries, and all changes of them."""

    chance: Random
    is_numbered: bool
    queries: list[Query]
    state: State = field(default_factory=State)
    saved: list[State] = field(default_factory=list)
    ids: int = 0
    is_calm: bool = False
    rows_at: dict[int, frozenset[Row]] = field(default_factory=dict)
    pending: list[tuple[Query, Claim, Batch]] = field(default_factory=list)

    def history(self) -> TableHistory:
        return TableHistory(self.state.kept, {}, self.state.table, self.is_numbered)

    def commit(self, change: Change, rows: Iterable[Row], *claims: Claim) -> None:
        """Add a commit with these rows, or with all rows if it changes them."""
        before = self.state
        self.ids += 1
        parent = before.commits[-1].id if before.commits else None
        number = len(before.commits) if self.is_numbered else 1000 + self.ids
        new_commit = Commit(number, parent, change, change, {claim.name: claim for claim in claims})
        rows_found = frozenset(rows) if change == "other" else before.rows | frozenset(rows)
        table = before.table if before.commits else f"t{self.ids}"
        commits = (*before.commits, new_commit)
        self.state = replace(before, table=table, commits=commits, rows=rows_found)
        self.rows_at[number] = rows_found

    def new_id(self) -> str:
        self.ids += 1
        return f"r{self.ids}"

    def run(self, query: Query) -> None:
        """Run a batch of a query, with crashes, and other commits in between."""
        batch = query.plan()
        if self.chance.random() < 0.1:
            return
        claim = query.claim(batch, self.new_id())
        try:
            if self.look(query, claim):
                return
        except Rejected:
            if self.chance.random() < 0.5:
                query.begin_again()
            return
        record = self.last
        if self.chance.random() < 0.1:
            return
        if self.chance.random() < 0.15:
            self.disturb()
        fate = self.chance.random()
        if fate < 0.05:  # a driver that returns later
            self.pending.append((query, record, batch))
            return
        if fate >= 0.08:  # else options are not written
            self.write(query, record, batch)
        query.reached[record.query] = max(query.reached.get(record.query, 0), batch.end)
        if self.chance.random() < 0.9:
            query.finish(claim)

    def run_calmly(self, query: Query, times: int = 1) -> None:
        """Write the next batch of a query, as a driver that is killed before Spark's commit."""
        batch = query.plan()
        for _ in range(times):
            claim = query.claim(batch, self.new_id())
            if not self.look(query, claim):
                self.write(query, self.last, batch)
        query.finish(claim)

    def look(self, query: Query, claim: Claim) -> bool:
        """Read the table, remember the record, and return whether it is there."""
        history = self.history()
        memory = query.checkpoint.memory
        committed_part = rules.find_committed_part(history, claim, memory)
        if committed_part is not None:
            query.checkpoint = query.checkpoint.keeping(committed_part)
            query.finish(claim)
            return True
        self.last = prepare_commit(history, claim, memory, start_over=query.start_over)
        query.checkpoint = query.checkpoint.keeping(self.last)
        return False

    def write(self, query: Query, record: Claim, batch: Batch) -> None:
        """Commit a batch; the table's own transactions have it once."""
        if self.is_numbered and self._has_batch(query.name, record):
            return
        query.reached[record.query] = max(query.reached.get(record.query, 0), batch.end)
        rows = [(query.name, place) for place in range(batch.begin, batch.end)]
        self.commit("append", rows, record)

    def _has_batch(self, name: str, record: Claim) -> bool:
        for commit in self.state.commits:
            claim = commit.claims.get(name)
            if claim is None or claim.accepted:
                continue
            if (claim.query, claim.batch) == (record.query, record.batch):
                return True
        return False

    def disturb(self) -> None:
        """Change the table without a query."""
        fate = self.chance.random()
        state = self.state
        if fate < 0.25 or not state.commits:
            self.commit("append", [("", self.ids)])
        elif fate < 0.45:
            self.commit("none", ())
        elif fate < 0.65:
            kept_rows = sorted(state.rows)
            self.commit(
                "other", self.chance.sample(kept_rows, self.chance.randrange(len(kept_rows) + 1))
            )
        elif fate < 0.75:
            name = self.chance.choice(self.queries).name
            self.commit("append", (), Claim(name, None, unreadable="holds no claim"))
        elif not self.is_numbered:
            self.roll_back()
        elif not self.is_calm:
            self.put_back()

    def roll_back(self) -> None:
        kept_commits = self.state.commits[self.state.kept_from :]
        place = self.state.commits.index(self.chance.choice(kept_commits))
        self.state = replace(
            self.state,
            commits=self.state.commits[: place + 1],
            rows=self.rows_at[self.state.commits[place].id],
        )

    def put_back(self) -> None:
        if self.saved:
            self.state = self.chance.choice(self.saved)

    def expire(self) -> None:
        kept_range = range(self.state.kept_from, len(self.state.commits))
        if kept_range:
            self.state = replace(self.state, kept_from=self.chance.choice(kept_range))

    def accept(self) -> None:
        """Inspect and accept the table; others may come between."""
        history = self.history()
        if history.version is None:
            return
        rows = self.state.rows
        queries_seen = {query.name: (query, dict(query.reached)) for query in self.queries}
        if self.chance.random() < 0.3:
            self.is_calm = True  # a number is of one commit meanwhile
            run_first_query = partial(self.run, self.queries[0])
            fates: list[Callable[[], None]] = [self.disturb, self.expire, run_first_query]
            self.chance.choice(fates)()
            self.is_calm = False
        try:
            records = build_acceptance(self.history(), "looked", at=history.version)
        except Rejected:
            return
        records = [replace(record_given, id=self.new_id()) for record_given in records]
        if self.chance.random() < 0.3:
            self.disturb()
        self.commit("append", (), *records)
        for record in records:
            query, reached_places = queries_seen[record.name]
            places = range(reached_places.get(record.query, 0))
            missing = {place for place in places if (query.name, place) not in rows}
            query.excused[record.query] = query.excused.get(record.query, set()) | missing

    def act(self, *, is_benign: bool) -> None:
        query = self.chance.choice(self.queries)
        if self.chance.random() < 0.55:
            self.run(query)
        elif is_benign:
            self.commit(self.chance.choice(["append", "none"]), ())
        else:
            fates: dict[Callable[[], None], int] = {
                self.disturb: 10,
                self.put_back: 5,
                self.make_again: 4,
                self.expire: 5,
                self.accept: 6,
                self.leave_gap: 2,
                self.come_late: 5,
                partial(self.put_checkpoint_back, query): 8,
            }
            self.chance.choices([*fates], [*fates.values()])[0]()
        self.save()

    def put_checkpoint_back(self, query: Query) -> None:
        """Restore the checkpoint, or lose its records."""
        if self.chance.random() < 0.6:
            query.checkpoint = self.chance.choice(query.saved)
        else:
            query.checkpoint = replace(query.checkpoint, memory=())

    def make_again(self) -> None:
        """Recreate the table; others write to it."""
        self.drop()
        for _ in range(self.chance.randrange(8)):
            self.commit("append", [("", self.ids)])

    def drop(self) -> None:
        self.state = State()

    def leave_gap(self) -> None:
        """Hide a commit in the middle of a history of numbers."""
        if self.is_numbered and len(self.state.commits) > 2:
            hidden_id = self.chance.choice(self.state.commits[1:-1]).id
            self.state = replace(self.state, hidden=self.state.hidden | {hidden_id})

    def come_late(self) -> None:
        """Let a stopped driver commit."""
        if self.pending:
            self.write(*self.pending.pop())

    def save(self) -> None:
        """Save this moment, for a restore."""
        self.saved.append(self.state)
        for query in self.queries:
            query.saved.append(query.checkpoint)

    def names(self) -> set[str]:
        """Return the queries of records that are of the present table, as far as they state it."""
        names_found = set[str]()
        for commit in self.state.kept:
            is_stated = self.is_numbered and commit.parent is not None
            tables = {self.state.table} if is_stated else {"", self.state.table}
            for record in commit.claims.values():
                if record.id and record.table in tables:
                    names_found |= {record.name, *record.names}
        return names_found

    def lacks(self, query: Query, holder: str, complete_to: int) -> Sequence[int]:
        """Return the places below a time that the table lacks, unless they were accepted."""
        excused_places = query.excused.get(holder, set())
        lacking_places = []
        for place, time in enumerate(query.times):
            is_claimed = time < complete_to and place not in excused_places
            if is_claimed and (query.name, place) not in self.state.rows:
                lacking_places.append(place)
        return lacking_places
