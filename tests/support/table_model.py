"""A table in memory that knows its rows, and what is truly complete in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from noted_time.reading import Change, Commit, TableHistory, is_committed, to_commit
from noted_time.values import Claim

Row = tuple[str, int, int]
"""The query's name, the time, and a number of its own."""

STEP = 10


@dataclass
class Query:
    """A query with batches of rows: what it gave so far, and what it promised with each batch."""

    name: str
    id: str
    times: list[int | None] = field(default_factory=list)
    """The `complete_to` of each batch planned."""
    rows: list[frozenset[Row]] = field(default_factory=list)
    owed: set[Row] = field(default_factory=set)
    """The rows given, but those that were late by contract."""
    last: int | None = None
    """The last commit, as the running committer remembers it."""

    def plan(self, random: Random) -> None:
        """Add a batch; rows below the time of the batch before it are late by contract."""
        known = [time for time in self.times if time is not None]
        floor = known[-1] if known else 0
        batch = len(self.times)
        times = [floor + random.randrange(-STEP, 2 * STEP) for _ in range(random.randrange(3))]
        rows = frozenset((self.name, time, 100 * batch + n) for n, time in enumerate(times))
        self.owed |= {row for row in rows if row[1] >= floor}
        self.rows.append(rows)
        rises = floor + random.randrange(STEP)
        self.times.append(None if batch == 0 else rises)

    def claim(self) -> Claim:
        """Return the claim of the last batch planned."""
        return Claim(self.name, self.times[-1], "time", self.id, len(self.times) - 1)


@dataclass
class ModelTable:
    """Commits with their rows; `status` is what each name may claim there, by full knowledge."""

    commits: dict[int, Commit] = field(default_factory=dict)
    rows: dict[int, frozenset[Row]] = field(default_factory=lambda: {0: frozenset()})
    status: dict[int, dict[str, int | None]] = field(default_factory=lambda: {0: {}})
    ended: dict[int, frozenset[str]] = field(default_factory=lambda: {0: frozenset()})
    head: int = 0
    expired: set[int] = field(default_factory=set)

    def chain(self) -> list[Commit]:
        """Return the commits that lead to the head, oldest first."""
        found, at = [], self.head
        while at:
            found.append(self.commits[at])
            at = self.commits[at].parent or 0
        return found[::-1]

    def history(self) -> TableHistory:
        """Return what is still kept of them."""
        chain = [each for each in self.chain() if each.id not in self.expired]
        ids = {each.id for each in self.chain()}
        strays = [c for c in self.commits.values() if c.id not in ids | self.expired]
        return TableHistory(chain, strays, last_number=len(self.commits))

    def commit(self, change: Change, rows: Iterable[Row], *claims: Claim, on: int = -1) -> int:
        """Add a commit on the head, or beside it `on` another one."""
        parent, number = (self.head if on < 0 else on), len(self.commits) + 1
        records = {claim.name: claim for claim in claims}
        made = Commit(number, parent or None, change, change, records, number)
        self.commits[number] = made
        before = self.rows[parent]
        self.rows[number] = before | frozenset(rows) if change != "other" else frozenset(rows)
        status, ended = dict(self.status[parent]), set(self.ended[parent])
        if change == "other":
            ended |= status.keys()
        for claim in claims:
            status.setdefault(claim.name, None)
        self.status[number], self.ended[number] = status, frozenset(ended)
        if on < 0:
            self.head = number
        return number

    def commit_batch(self, query: Query, seen: TableHistory) -> None:
        """Commit the last batch of a query, by a committer that saw the history `seen`."""
        claim = query.claim()
        if is_committed(self.history(), claim):  # as the table's own transactions find it
            return
        claim = to_commit(seen, claim, last=query.last)
        query.last = self.commit("append", query.rows[-1], claim)
        looked_at = seen.version or 0
        if query.name not in self.ended[looked_at] and not self.lacks(query):
            self.status[self.head][query.name] = query.times[-1]
        else:
            self.ended[self.head] |= {query.name}

    def lacks(self, query: Query) -> bool:
        """Whether a commit of the query is not among the ancestors, or its rows were changed."""
        chain = self.chain()
        made = {n for n, c in self.commits.items() if query.name in c.claims}
        if made - {each.id for each in chain}:
            return True
        first = next(at for at, each in enumerate(chain) if query.name in each.claims)
        return any(each.change == "other" for each in chain[first:])

    def claimed(self, query: Query) -> int | None:
        """Return what may be claimed at the head for a query, by full knowledge."""
        is_ended = query.name in self.ended[self.head]
        return None if is_ended else self.status[self.head].get(query.name)

    def is_true(self, query: Query, complete_to: int) -> bool:
        """Whether the head has all rows that the query owes below a time."""
        return {row for row in query.owed if row[1] < complete_to} <= self.rows[self.head]


def restarted(query: Query) -> None:
    """Have the query's committer forget what it knew."""
    query.last = None


def expire(table: ModelTable, random: Random) -> None:
    """Expire some of the oldest commits, never the head, and some beside its ancestors."""
    chain = [each.id for each in table.chain()][:-1]
    kept = [each for each in chain if each not in table.expired]
    table.expired |= set(kept[: random.randrange(len(kept) + 1)]) if kept else set()
    ids = {each.id for each in table.chain()}
    table.expired |= {each for each in table.commits if each not in ids and random.random() < 0.5}
