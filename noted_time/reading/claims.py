"""What a table's history of commits makes of the claims in them: which hold, and up to where.

A claim speaks of rows that were committed before it. So it holds from commit to commit only while
each leaves those rows as they are, and it ends with the first that may not have. The rule is the
same for every table format; `noted_time.tables` reads the histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from noted_time.values import Claim, Rejected

Steps = tuple[tuple[int, int], ...]

Change = Literal["append", "none", "other"]
"""What a commit does to the rows before it: adds others, leaves all as they are, or may not."""

NOT_CLAIMED = "no commit has a claim"
EXPIRED = "its claims are in history that has expired"
NO_WATERMARK = "its query has no watermark yet"
UNCLAIMED = "{}, before its query claimed anything"
BEGUN = "it was empty before batch {} of its query, whose earlier rows may be missing"
GAP = "commits that have expired may have been rolled back"
SET_EXPECTS = "several names claim it ({}): set the table property noted-time.expects, or name them"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table: a version of Delta, a snapshot of Iceberg.

    `parent` is the commit that it follows, `None` for the first of the table. `operation` is the
    table's own word for what it did, and `number` (Iceberg's sequence number) rises with each
    commit of the table on any branch; 0 if the table has none.
    """

    id: int
    parent: int | None
    change: Change
    operation: str = ""
    claims: Mapping[str, Claim] = field(default_factory=dict)
    number: int = 0

    @property
    def shown(self) -> str:
        """What the commit did, for a sentence."""
        return f"{self.operation or 'a change'} in version {self.id}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How the claim of one name stands at a commit.

    `claim` is its last record, found in commit `at` (`None` for a name known from another's record
    only). `complete_to` (Unix ms) is `None` if nothing holds, and `why` says why. `is_foreign`:
    others appended rows since its first record. `steps` are the places in the history at which
    `complete_to` changed, and its values.
    """

    complete_to: int | None = None
    why: str = ""
    claim: Claim | None = None
    at: int | None = None
    is_ended: bool = False
    is_foreign: bool = False
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class TableClaim:
    """What a table is complete to: the least of the names it expects.

    `complete_to` is in Unix ms, at the commit `version`. `claims` are the last records of the names
    and `missing` the writers that one of them went on without, `None` if one of them did not ask.
    `is_foreign`: rows of others are in the table, too.
    """

    complete_to: int
    version: int
    claims: Mapping[str, Claim]
    missing: tuple[str, ...] | None = None
    is_foreign: bool = False
    steps: Steps = field(default=(), repr=False)

    def version_at(self, time: int) -> int | None:
        """Return the first version that is complete to `time` (Unix ms), to read it by time travel.

        `None` if none that is known is; of expired history nothing is known.
        """
        return next((at for at, complete_to in self.steps if complete_to >= time), None)


@dataclass(frozen=True, slots=True)
class NoClaim:
    """A table of which nothing is claimed, and the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The commits that lead to a table's present state, oldest first, as far as they are kept.

    `strays` are commits that the present state does not rest on: rolled back, or of other branches.
    `expects` are the names that the table's properties list, and
    `last_number` is the largest number that the table has given.

    >>> def of(id, change="append", **claims):
    ...     records = {name: Claim(name, time, "t", "q", id) for name, time in claims.items()}
    ...     return Commit(id, id - 1 if id else None, change, claims=records)
    >>> history = TableHistory((of(0, orders=10), of(1, "none"), of(2, orders=20)))
    >>> history.claim().complete_to, history.claim().version_at(15)
    (20, 2)
    >>> TableHistory((of(0, orders=10), of(1, "other"))).claim()
    NoClaim(why='orders: ended by a change in version 1')
    """

    commits: Sequence[Commit]
    strays: Sequence[Commit] = ()
    expects: tuple[str, ...] = ()
    last_number: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the table's first commit is still kept."""
        return not self.commits or self.commits[0].parent is None

    @property
    def version(self) -> int | None:
        """The last commit, `None` before the first."""
        return self.commits[-1].id if self.commits else None

    def standings(self) -> dict[str, Standing]:
        """Return how the claim of each name that was ever found stands."""
        return _Fold(self).standings

    def claim(self, names: Iterable[str] | None = None) -> TableClaim | NoClaim:
        """Return what the table is complete to by these names: those it expects if not given."""
        standings = self.standings()
        wanted = tuple(names or self.expects or standings)
        if not wanted:
            return NoClaim(NOT_CLAIMED if self.is_whole else EXPIRED)
        if names is None and not self.expects and len(wanted) > 1:
            return NoClaim(SET_EXPECTS.format(", ".join(sorted(wanted))))
        unknown = Standing(why=NOT_CLAIMED if self.is_whole else EXPIRED)
        found = {name: standings.get(name, unknown) for name in wanted}
        ended = [f"{name}: {each.why}" for name, each in found.items() if each.complete_to is None]
        return NoClaim("; ".join(ended)) if ended else _least(found, self.commits)


def _least(found: Mapping[str, Standing], commits: Sequence[Commit]) -> TableClaim:
    known = {name: each.claim for name, each in found.items() if each.claim is not None}
    missing = [claim.missing for claim in known.values()]
    asked = [each for each in missing if each is not None]
    return TableClaim(
        min(each.complete_to for each in found.values() if each.complete_to is not None),
        commits[-1].id,
        known,
        tuple(sorted({name for each in asked for name in each})) if asked == missing else None,
        any(each.is_foreign for each in found.values()),
        tuple(_least_steps([each.steps for each in found.values()], commits)),
    )


def _least_steps(names: Sequence[Steps], commits: Sequence[Commit]) -> Iterator[tuple[int, int]]:
    """Yield the commits with which the least time of all names rose, and that time."""
    now: dict[int, int] = {}
    least: int | None = None
    for place, name, time in sorted((at, n, t) for n, steps in enumerate(names) for at, t in steps):
        now[name] = time
        if len(now) == len(names) and (least is None or min(now.values()) > least):
            least = min(now.values())
            yield commits[place].id, least


class _Fold:
    """Goes through a history once, from its oldest commit to its last."""

    def __init__(self, history: TableHistory) -> None:
        self._history = history
        self._found: dict[str, Standing] = {}
        self._steps: dict[str, list[tuple[int, int]]] = {}
        self._seen: set[int] = set()
        self._is_changed = False
        for place, commit in enumerate(history.commits):
            self._add(commit)
            self._note_steps(place)

    @property
    def standings(self) -> dict[str, Standing]:
        """How each name stands after the last commit."""
        steps = self._steps
        return {n: replace(each, steps=tuple(steps[n])) for n, each in self._found.items()}

    def _add(self, commit: Commit) -> None:
        for name, standing in self._found.items():
            if name not in commit.claims:
                self._found[name] = _inherited(standing, commit)
        for name, claim in commit.claims.items():
            before = self._found.get(name, Standing())
            self._found[name] = _taken(before, claim, commit, self._doubt(claim, commit))
        for claim in commit.claims.values():
            if claim.seen == commit.parent and self._found[claim.name].complete_to is not None:
                self._add_names(claim, commit)
        self._seen.add(commit.id)
        self._is_changed |= commit.change == "other"

    def _note_steps(self, place: int) -> None:
        for name, each in self._found.items():
            steps = self._steps.setdefault(name, [])
            if each.complete_to is None:
                steps.clear()
            elif not steps or steps[-1][1] != each.complete_to:
                steps.append((place, each.complete_to))

    def _doubt(self, claim: Claim, commit: Commit) -> str:
        """Return why what a record comes after cannot be relied on, `""` if it can."""
        after = claim.after
        if after is None or after in self._seen or after == commit.parent:
            return ""
        if self._history.is_whole:
            return f"its commit {after} was rolled back"
        is_next = after == self._history.commits[0].parent and not self._is_changed
        return "" if is_next else EXPIRED

    def _add_names(self, claim: Claim, commit: Commit) -> None:
        """Add the names of which only this record is kept: its committer knew their claims."""
        for name, time in claim.names.items():
            if name not in self._found and not self._history.is_whole:
                self._found[name] = Standing(time, at=commit.id)


def _inherited(standing: Standing, commit: Commit) -> Standing:
    """Return how a claim stands after a commit that has no record of its name."""
    if commit.change == "other":
        return _ended(standing, f"ended by {commit.shown}")
    is_foreign = standing.is_foreign or (commit.change == "append" and not commit.claims)
    return standing if is_foreign == standing.is_foreign else replace(standing, is_foreign=True)


def _taken(before: Standing, claim: Claim, commit: Commit, doubt: str) -> Standing:
    """Return how a claim stands after a commit with a record of its name."""
    known = replace(before, claim=claim, at=commit.id)
    if commit.change == "other" and not claim.merges:
        return _ended(known, f"ended by {commit.shown}")
    if claim.accepted or claim.starts:
        known = replace(known, is_ended=False, complete_to=None, why="")
    if known.is_ended:
        return known
    if doubt == EXPIRED:
        return replace(known, complete_to=None, why=EXPIRED)
    if doubt or claim.ended:
        return _ended(known, doubt or claim.ended)
    if claim.complete_to is not None:
        return replace(known, complete_to=claim.complete_to, why="")
    return known if known.complete_to is not None else replace(known, why=known.why or NO_WATERMARK)


def _ended(standing: Standing, why: str) -> Standing:
    if standing.is_ended:
        return standing
    return replace(standing, complete_to=None, why=why, is_ended=True)


def is_committed(history: TableHistory, claim: Claim) -> bool:
    """Whether the part of the batch that a record is of is in the table already.

    A batch that runs again after a crash finds its record, or that of a later batch.
    """
    found = [each.claims[claim.name] for each in history.commits if claim.name in each.claims]
    own = [(each.batch, each.part) for each in found if each.query == claim.query]
    return any(
        batch > claim.batch or (batch, part) == (claim.batch, claim.part) for batch, part in own
    )


def to_commit(
    history: TableHistory, claim: Claim, *, last: int | None = None, start_over: bool = False
) -> Claim:
    """Return the record with what the table knows: what it comes after, and the other names.

    `last` is the commit of the name that this committer made before, `None` after a start. If the
    last claim of the name has ended, the record claims nothing and says why. Raises `Rejected` if
    the name is another query's, unless it is to `start_over` under it.
    """
    standings = history.standings()
    before = standings.get(claim.name, Standing())
    strays = [each for each in history.strays if claim.name in each.claims]
    records = [each.claims[claim.name] for each in strays]
    holders = (before.claim,) if before.claim is not None else records
    queries = {record.query for record in holders} - {"", claim.query}
    names = {name: each.complete_to for name, each in standings.items() if name != claim.name}
    known = {name: time for name, time in names.items() if time is not None}
    if start_over and queries:
        return replace(claim, starts=True, names=known, seen=history.version)
    if queries:
        raise Rejected(
            f"{claim.name!r} is the name of another query of this table, {min(queries)}, and this "
            f"is {claim.query}: choose another name, continue the checkpoint of that query, or "
            "take the name over with start_over=True"
        )
    after = before.at if before.at is not None else last
    why = before.why if before.is_ended or before.why == EXPIRED else ""
    why = why or _lost(history, before, claim, last)
    if why:
        return replace(claim, after=after, complete_to=None, ended=why)
    return replace(claim, after=after, names=known, seen=history.version)


def _lost(history: TableHistory, before: Standing, claim: Claim, last: int | None) -> str:
    """Return why rows that the query committed may not be in the table, `""` if all are."""
    ids = {each.id for each in history.commits}
    newest = before.claim.batch if before.claim is not None else -1
    for stray in history.strays:
        record = stray.claims.get(claim.name)
        if record is not None and record.batch > newest:
            return f"its commit {stray.id} was rolled back"
    if last is not None:
        return "" if last in ids else EXPIRED
    if before.claim is None and claim.batch > 0:
        if not history.is_whole:
            return EXPIRED
        changed = next((each for each in history.commits if each.change == "other"), None)
        if changed is not None:
            return UNCLAIMED.format(changed.shown)
        if all(each.change != "append" for each in history.commits):
            return BEGUN.format(claim.batch)
    return _gap(history, before) if claim.batch > 0 else ""


def _gap(history: TableHistory, before: Standing) -> str:
    """Return that commits of the table after the last one of the name are not known any more.

    A sequence number is given once, so those that neither the table's state nor a commit beside it
    has were of commits that were rolled back and have expired, or of a branch that has.
    """
    own = next((each.number for each in history.commits if each.id == before.at), 0)
    known = {each.number for each in (*history.commits, *history.strays)}
    first = own or min(known, default=0)
    is_gap = any(number not in known for number in range(first, history.last_number + 1))
    return GAP if is_gap else ""


def accepted(history: TableHistory, comment: str, names: Iterable[str] = ()) -> list[Claim]:
    """Return the records by which an operator vouches for a table whose claims have ended.

    Each states the last time that was claimed under its name. Raises `Rejected` if no claim of
    these names, or of all, has ended.
    """
    found = history.standings()
    wanted = {name: found[name] for name in tuple(names) or found if name in found}
    lost = [each for each in wanted.values() if each.complete_to is None and each.claim is not None]
    if not lost:
        raise Rejected("no claim of this table has ended: there is nothing to accept")
    return [_accepted(history, each.claim, comment) for each in lost if each.claim is not None]


def _accepted(history: TableHistory, claim: Claim, comment: str) -> Claim:
    records = (each.claims[claim.name] for each in history.commits if claim.name in each.claims)
    times = [record.complete_to for record in records if record.complete_to is not None]
    plain = Claim(claim.name, times[-1] if times else None, claim.time_of, claim.query, claim.batch)
    return replace(plain, part=claim.part, stream=claim.stream, accepted=comment)
