"""Decides which claims in a table's history are still valid.

A claim (`tables.claim`) is about the rows committed before it. It ends with the first commit that
may have changed these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from noted_time.extending import MAX_INT64, MIN_INT64, format_duration, format_gap, format_time
from noted_time_extensions.tables.claim import (
    Claim,
    ClaimSource,
    find_greatest,
    list_expected_names,
    merge_sources,
    shift_bound,
)

Steps = tuple[tuple[int, int], ...]

Change = Literal["append", "none", "other"]
"""The effect of a commit on earlier rows: adds rows, changes nothing, or may change some."""

NOT_CLAIMED = "no commit has a claim"
HISTORY_EXPIRED = "its claims are in history that has expired"
NO_WATERMARK = "its query has no watermark yet"
START_UNKNOWN = "it is not known which rows were deleted before its query began"
FROM_TIME_OPTIONS = "TableClaims takes from_time=, and window= for a query with state"
ROWS_DELETED = "rows before {} may be missing: its query began after them"
FIRST_NOT_KNOWN = "the time of the stream's first mark is not known"
SINCE_STATED = "rows from {} on are complete, as its author stated"
WRONG_PREDECESSOR = "commit {} is not its predecessor"
HISTORY_GAP = "commits before {} are missing in the history"
CHANGED_SINCE = "after version {}, for which it was accepted: {}"
WRONG_COUNTS = (
    "it counts {expected_vouching} of {expected} expected writers, and {count} writers in all"
)
NOT_A_TIME = "its time is an end of the range of times"
TOO_FAR_AHEAD = "its time {} is {} after its commit, and its stream allows {}"
SEVERAL_NAMES = (
    "several names have claims ({}): set the table property noted-time.expects, or name them"
)


class Commit(Struct, frozen=True):
    """One commit of a table: a version in Delta, a snapshot in Iceberg.

    `current_since` is when it last became the table's current one (Unix ms), after a rollback of
    Iceberg later than the commit, or 0 if unknown.
    """

    id: int
    parent: int | None
    change: Change
    operation: str = ""
    claims: Mapping[str, Claim] = {}
    renamed: tuple[str, ...] = ()
    current_since: int = 0

    @property
    def description(self) -> str:
        return f"{self.operation or 'a change'} in version {self.id}"

    def renames(self, column: str) -> bool:
        return any(f"{column}.".startswith(f"{renamed_column}.") for renamed_column in self.renamed)


class ClaimStatus(Struct, frozen=True):
    """The state of one name's claim at a commit.

    `complete_to` is in Unix ms, or `None` if the claim is not valid. `ended_at` and the places in
    `steps` are indexes in the history.
    """

    complete_to: int | None = None
    why: str = ""
    claim: Claim | None = None
    at: int | None = None
    is_ended: bool = False
    ended_at: int = -1
    is_foreign: bool = False
    steps: Steps = ()


class TableClaim(Struct, frozen=True, repr_omit_defaults=True):
    """The completeness of a table: the least time (Unix ms) of the expected names' claims.

    `missing_writers` is `None` if a claim did not check for missing writers, and `is_foreign` true
    if others appended rows. `times` has the time of each name.
    """

    complete_to: int
    version: int
    claims: Mapping[str, Claim]
    missing_writers: tuple[str, ...] | None = None
    is_foreign: bool = False
    steps: Steps = ()
    times: Mapping[str, int] = {}

    @property
    def from_time(self) -> int | None:
        """The time (Unix ms) before which rows may have been deleted, or `None` if unknown."""
        if not self.claims:
            return MIN_INT64
        return find_greatest(claim.from_time for claim in self.claims.values())

    @property
    def first_lower(self) -> int | None:
        """The least time (Unix ms) that a writer vouches for, if it is known of all streams."""
        return find_greatest(claim.first_lower for claim in self.claims.values())

    @property
    def known_first_lower(self) -> int | None:
        """The time (Unix ms) below which no writer vouches, as far as it is known."""
        times = [claim.first_lower for claim in self.claims.values()]
        return max((time for time in times if time is not None), default=None)

    @property
    def keeps_late_rows(self) -> bool | None:
        """Whether rows that come late to the queries are in the table, if it is known."""
        return find_whether_all_keep(self.claims.values())

    def list_sources(self) -> list[ClaimSource]:
        """Return the streams of the claims, each with the marks that the table has.

        >>> claims = {"orders": Claim("orders", 50, stream="orders", domain="ship")}
        >>> TableClaim(40, 1, claims, times={"orders": 50}).list_sources()
        [ClaimSource(stream='orders', domain='ship', lag_ms=0, at_most=50)]
        """
        sources = []
        for name, claim in self.claims.items():
            time = self.times.get(name, self.complete_to)
            for source in claim.sources:
                at_most = source.at_most
                if not claim.inherits:
                    at_most = shift_bound(time, source.lag_ms)
                sources.append(source._replace(at_most=at_most))
        return merge_sources(sources)

    def list_missing(self) -> list[str]:
        names: set[str] = set()
        for claim in self.claims.values():
            names.update(claim.missing_writers or ())
        return sorted(names)

    @property
    def vouched_by(self) -> str:
        """The number of writers that vouched, as the end of a sentence."""
        return "".join(dict.fromkeys(claim.vouched_by for claim in self.claims.values()))

    @property
    def gone(self) -> str:
        """A sentence about rows that may be missing because of `from_time`, or `""`."""
        if self.from_time is None:
            return f"{START_UNKNOWN} ({FROM_TIME_OPTIONS})"
        if any(claim.is_from_time_stated for claim in self.claims.values()):
            return SINCE_STATED.format(format_time(self.from_time))
        if self.from_time == MIN_INT64:
            return ""
        return ROWS_DELETED.format(format_time(self.from_time))

    def describe_lack(self, asked_streams: str = "", *, names_gone: bool = True) -> str:
        """Return the missing writers and rows, as the end of a sentence after a stream's answer.

        With `names_gone`, it ends with the rows that may be missing because of `from_time`.

        >>> TableClaim(5, 1, {}, missing_writers=("pos", "web")).describe_lack()
        ', without pos, web'
        """
        ending = asked_streams
        if self.missing_writers is not None:
            ending = self.vouched_by
            if self.missing_writers:
                ending += f", without {', '.join(self.missing_writers)}"
            ending += asked_streams
        elif not asked_streams:
            ending = "; missing writers were not asked for"
        has_unknown = any(
            claim.stream and claim.first_lower is None for claim in self.claims.values()
        )
        if has_unknown and not asked_streams:
            ending += f"; {FIRST_NOT_KNOWN}"
        if self.gone and names_gone:
            ending += f"; {self.gone}"
        return ending

    def version_at(self, time: int) -> int | None:
        """Return the first version that is complete to `time` (Unix ms)."""
        for version, complete_to in self.steps:
            if complete_to >= time:
                return version
        return None


class NoClaim(Struct, frozen=True, repr_omit_defaults=True):
    """The reason why a table has no valid claim."""

    why: str
    kind: Literal["not_claimed", "claim_ended", "ambiguous"] = "not_claimed"


class TableHistory(Struct, frozen=True):
    """The kept commits that lead to a table's current state, oldest first.

    >>> def of(id, change="append", **claims):
    ...     records = {n: Claim(n, time, "t", "q", 0, id=n) for n, time in claims.items()}
    ...     return Commit(id, id - 1 if id else None, change, claims=records)
    >>> history = TableHistory((of(0, orders=10), of(1, "none"), of(2, orders=20)))
    >>> history.claim().complete_to, history.claim().version_at(15)
    (20, 2)
    >>> TableHistory((of(0, orders=10), of(1, "other"))).claim()
    NoClaim(why='orders: ended by a change in version 1', kind='claim_ended')
    >>> TableHistory((of(0, orders=None),)).claim().why
    'orders: it is not known which rows were deleted before its query began'
    """

    commits: Sequence[Commit]
    properties: Mapping[str, str] = {}
    table: str = ""
    is_numbered: bool = False

    @property
    def expects(self) -> tuple[str, ...]:
        """The names whose claims must all be valid."""
        return list_expected_names(self.properties)

    @property
    def is_whole(self) -> bool:
        return not self.commits or self.commits[0].parent is None

    @property
    def version(self) -> int | None:
        if not self.commits:
            return None
        return self.commits[-1].id

    def cut_at(self, version: int) -> TableHistory | None:
        """Return the history up to a version, `None` if it does not contain the version."""
        last_place = None
        for place, commit in enumerate(self.commits):
            if commit.id == version:
                last_place = place
        if last_place is None:
            return None
        return replace(self, commits=self.commits[: last_place + 1])

    def records(self, commit: Commit) -> Mapping[str, Claim]:
        """Return the records of a commit that are about this table, by name.

        A restored or copied table has records with the id of another one. A commit must have the
        id if versions are numbered, but the commit that creates a table cannot contain it.
        """
        needs_id = self.is_numbered and commit.parent is not None
        return {
            name: claim
            for name, claim in commit.claims.items()
            if claim.unreadable or self._is_about(claim, needs_id=needs_id)
        }

    def _is_about(self, claim: Claim, *, needs_id: bool) -> bool:
        if not claim.table:
            return not needs_id
        return not self.table or claim.table == self.table

    def statuses(self) -> dict[str, ClaimStatus]:
        return _Fold(self).statuses

    def claim(
        self, names: Iterable[str] | None = None, statuses: Mapping[str, ClaimStatus] | None = None
    ) -> TableClaim | NoClaim:
        """Return the claim for `names`, by default for all expected names."""
        if statuses is None:
            statuses = self.statuses()
        wanted_names = tuple(names or self.expects or statuses)
        reason_without_claim = NOT_CLAIMED if self.is_whole else HISTORY_EXPIRED
        if not wanted_names:
            return NoClaim(reason_without_claim)
        if names is None and not self.expects and len(wanted_names) > 1:
            return NoClaim(SEVERAL_NAMES.format(", ".join(sorted(wanted_names))), "ambiguous")
        no_status = ClaimStatus(why=reason_without_claim)
        wanted_statuses = {name: statuses.get(name, no_status) for name in wanted_names}
        reasons = []
        for name, status in wanted_statuses.items():
            if status.complete_to is None:
                reasons.append(f"{name}: {status.why}")
        if not reasons:
            return _combine_claims(wanted_statuses, self.commits)
        is_ended = any(status.is_ended for status in wanted_statuses.values())
        return NoClaim("; ".join(reasons), "claim_ended" if is_ended else "not_claimed")


def find_whether_all_keep(claims: Iterable[Claim]) -> bool | None:
    """Return whether the queries of all claims keep late rows, `None` if it is not known.

    >>> keeps, loses = Claim("a", 5, keeps_late_rows=True), Claim("a", 5, keeps_late_rows=False)
    >>> unknown = Claim("a", 5)
    >>> [find_whether_all_keep(each) for each in ([keeps], [keeps, unknown], [unknown, loses])]
    [True, None, False]
    """
    answers = {claim.keeps_late_rows for claim in claims}
    if False in answers:
        return False
    if None in answers:
        return None
    return True


def _combine_claims(statuses: Mapping[str, ClaimStatus], commits: Sequence[Commit]) -> TableClaim:
    """Return the claim of a table whose names are all valid."""
    claims: dict[str, Claim] = {}
    times: dict[str, int] = {}
    missing_writers: set[str] = set()
    for name, status in statuses.items():
        if status.complete_to is not None:
            times[name] = status.complete_to
        if status.claim is not None:
            claims[name] = status.claim
            missing_writers.update(status.claim.missing_writers or ())
    have_all_asked = all(claim.missing_writers is not None for claim in claims.values())
    return TableClaim(
        min(times.values()),
        commits[-1].id,
        claims,
        tuple(sorted(missing_writers)) if have_all_asked else None,
        any(status.is_foreign for status in statuses.values()),
        tuple(_least_steps([status.steps for status in statuses.values()], commits)),
        times,
    )


def _least_steps(
    steps_of_names: Sequence[Steps], commits: Sequence[Commit]
) -> Iterator[tuple[int, int]]:
    """Yield each version that raises the least time of all names, with this time."""
    steps = []
    for name_number, name_steps in enumerate(steps_of_names):
        for place, time in name_steps:
            steps.append((place, name_number, time))
    times_by_name: dict[int, int] = {}
    last_time: int | None = None
    for place, name_number, time in sorted(steps):
        times_by_name[name_number] = time
        if len(times_by_name) < len(steps_of_names):
            continue
        least_time = min(times_by_name.values())
        if last_time is None or least_time > last_time:
            last_time = least_time
            yield commits[place].id, least_time


class _Fold:
    """Walks through the commits of a history, and keeps the status of each name.

    The place of a commit is its index in the history, and -1 for a parent that expired.
    """

    def __init__(self, history: TableHistory) -> None:
        self._history = history
        self._statuses: dict[str, ClaimStatus] = {}
        self._steps: dict[str, list[tuple[int, int]]] = {}
        self._places: dict[int, int] = {}
        self._changed_at = -1
        self._foreign_at = -1
        self._last_ids: list[str] = []
        if history.commits and history.commits[0].parent is not None:
            self._places[history.commits[0].parent] = -1
        for place, commit in enumerate(history.commits):
            self._add(place, commit)
            self._note_steps(place)

    @property
    def statuses(self) -> dict[str, ClaimStatus]:
        steps = self._steps
        return {
            name: replace(status, steps=tuple(steps[name]))
            for name, status in self._statuses.items()
        }

    def _add(self, place: int, commit: Commit) -> None:
        records = self._history.records(commit)
        if place > 0 and commit.parent != self._history.commits[place - 1].id:
            self._changed_at = place
            for name, valid_status in self._statuses.items():
                self._statuses[name] = _end_claim(
                    valid_status, HISTORY_GAP.format(commit.id), place
                )
        for name, status in self._statuses.items():
            if name not in records:
                self._statuses[name] = self._carry_over(status, commit, place)
        for name, claim in records.items():
            if claim.unreadable and name not in self._statuses:
                continue
            before = self._statuses.get(name, ClaimStatus())
            self._statuses[name] = self._apply_record(before, claim, commit, place)
        for claim in records.values():
            if claim.name not in self._statuses:
                continue
            for name in claim.names:
                self._statuses.setdefault(name, ClaimStatus(why=HISTORY_EXPIRED, at=commit.id))
        self._note_commit(place, commit, records)

    def _note_commit(self, place: int, commit: Commit, records: Mapping[str, Claim]) -> None:
        if commit.change == "other":
            self._changed_at = place
        if commit.change == "append" and not records:
            self._foreign_at = place
        last_id = self._last_ids[-1] if self._last_ids else ""
        for claim in records.values():
            last_id = claim.id or last_id
        self._last_ids.append(last_id)
        self._places[commit.id] = place

    def _note_steps(self, place: int) -> None:
        for name, status in self._statuses.items():
            steps = self._steps.setdefault(name, [])
            if status.complete_to is None:
                steps.clear()
            elif not steps or steps[-1][1] != status.complete_to:
                if steps and status.complete_to < steps[-1][1]:
                    steps.clear()
                steps.append((place, status.complete_to))

    def _apply_record(
        self, before: ClaimStatus, claim: Claim, commit: Commit, place: int
    ) -> ClaimStatus:
        """Return the status of a name after a commit with a record of it.

        Which orders matter:

        1. A record that cannot be read, or that is of another query without taking the name over,
           says nothing about the rows. So only the commit counts, as for a name without a record.
        2. A commit that may have changed rows ends the claim, even if its record takes the name
           over. Only a marked MERGE changes no row that the claim is about.
        3. A record that takes over, accepts or inherits begins anew, but only if its predecessor
           is not in doubt: else an acceptance of another state would revive the claim.
        4. Reasons to end the claim come before faults of the record, which are not permanent: the
           next record of the name may be right.
        """
        takes_over = claim.starts or bool(claim.accepted)
        is_of_another = before.claim is not None and claim.query != before.claim.query
        if claim.unreadable:
            status = self._carry_over(before, commit, place)
            if status.complete_to is None:
                return status
            return replace(status, complete_to=None, why=claim.unreadable)
        if is_of_another and not takes_over:
            return self._carry_over(before, commit, place)
        status = replace(before, claim=claim, at=commit.id)
        if commit.change == "other" and not claim.merges:
            return _end_claim(status, f"ended by {commit.description}", place)
        doubt = self._find_doubt(before, claim)
        if (takes_over or claim.inherits) and not doubt:
            status = replace(status, is_ended=False, complete_to=None, why="")
        if claim.inherits:  # the rows before are the job's own
            place_after = self._places.get(claim.after or 0, -1)
            status = replace(status, is_foreign=self._foreign_at > place_after)
        if claim.ended:
            return _end_claim(status, claim.ended, place)
        if doubt and doubt != HISTORY_EXPIRED:
            return _end_claim(status, doubt, place)
        if status.is_ended:
            return _end_claim(status, status.why, place)
        fault = doubt or _find_fault(claim, commit.current_since)
        if fault:
            return replace(status, complete_to=None, why=fault)
        return _raise_claim(status, claim)

    def _carry_over(self, status: ClaimStatus, commit: Commit, place: int) -> ClaimStatus:
        """Return the status of a name after a commit that says nothing about it."""
        is_renamed = status.claim is not None and commit.renames(status.claim.time_of)
        if commit.change == "other" or is_renamed:
            return _end_claim(status, f"ended by {commit.description}", place)
        if commit.change == "append" and not self._history.records(commit):
            return replace(status, is_foreign=True)
        return status

    def _find_doubt(self, before: ClaimStatus, claim: Claim) -> str:
        """Return why a record may not continue the claim before it, or `""`.

        `HISTORY_EXPIRED` says that its predecessor can no longer be found.
        """
        if claim.starts:
            return ""
        if claim.accepted or claim.inherits:
            return self._find_doubt_of_accepted(before, claim)
        if claim.after is None:
            return ""
        wrong_predecessor = WRONG_PREDECESSOR.format(claim.after)
        if self._places.get(claim.after, -1) >= 0:
            return "" if self._has_record(claim.after, claim) else wrong_predecessor
        if self._history.is_whole:
            return wrong_predecessor
        if self._history.is_numbered:
            return HISTORY_EXPIRED
        last_seen = claim.seen
        if last_seen is None:
            last_seen = claim.after
        place = self._places.get(last_seen)
        if place is None or self._changed_at > place:
            return HISTORY_EXPIRED
        return ""

    def _find_doubt_of_accepted(self, before: ClaimStatus, claim: Claim) -> str:
        """Return why a record may not be about the present rows, or `""`.

        The accepted commit must be there, with the same last record. Only then it is asked
        whether the claim ended, or rows changed, after it.
        """
        wrong_predecessor = WRONG_PREDECESSOR.format(claim.after)
        place = None
        if claim.after is not None:
            place = self._places.get(claim.after)
        if place is None:
            return wrong_predecessor if self._history.is_whole else HISTORY_EXPIRED
        last_id = claim.after_id
        if place >= 0:
            last_id = self._last_ids[place]
        is_expired = not last_id and not self._history.is_whole
        if last_id != claim.after_id and not is_expired:
            return wrong_predecessor
        if before.ended_at > place:
            return CHANGED_SINCE.format(claim.after, before.why)
        if self._changed_at > place:
            return CHANGED_SINCE.format(claim.after, "rows changed")
        return "" if last_id == claim.after_id else HISTORY_EXPIRED

    def _has_record(self, after: int, claim: Claim) -> bool:
        commit = self._history.commits[self._places[after]]
        return any(record.id == claim.after_id for record in self._history.records(commit).values())


def _raise_claim(status: ClaimStatus, claim: Claim) -> ClaimStatus:
    """Return the status with a claim's time; a record that was committed late never lowers it."""
    times = [time for time in (status.complete_to, claim.complete_to) if time is not None]
    if times:
        return replace(status, complete_to=max(times), why="")
    if claim.from_time is None:
        return replace(status, why=START_UNKNOWN)
    return replace(status, why=status.why or NO_WATERMARK)


def _end_claim(status: ClaimStatus, why: str, place: int) -> ClaimStatus:
    """Return the status of an ended claim. A claim that had ended keeps its first reason."""
    if not status.is_ended:
        return replace(status, complete_to=None, why=why, is_ended=True, ended_at=place)
    if why == status.why:
        return status
    return replace(status, ended_at=place)


def _find_fault(claim: Claim, committed_at: int) -> str:
    """Return why a claim cannot be right. `committed_at` is in Unix ms, or 0 if unknown."""
    for counts in claim.all_counts:
        if counts and (
            min(counts.values()) < 0 or counts["expected_vouching"] > counts["expected"]
        ):
            return WRONG_COUNTS.format(**counts)
    times = {claim.complete_to, *(parent.complete_to for parent in claim.inherits)}
    if MIN_INT64 in times or MAX_INT64 in times:
        return NOT_A_TIME
    complete_to = claim.complete_to
    ahead_ms = claim.max_time_ahead_ms
    if complete_to is None or ahead_ms is None or not committed_at:
        return ""
    if complete_to <= committed_at + ahead_ms:
        return ""
    gap = format_gap(committed_at, complete_to)
    allowed_gap = format_duration(ahead_ms)
    return TOO_FAR_AHEAD.format(format_time(complete_to), gap, allowed_gap)
