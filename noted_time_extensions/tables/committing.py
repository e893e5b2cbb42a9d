"""Decides which claim a query may commit with a batch.

A table's history does not show a restore, a recreated table, or a batch that was never written. So
each record is first stored next to the query's checkpoint, and so is each batch without rows. The
query claims only while the table has these records, and all other batches are known to have no
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from noted_time.extending import Rejected
from noted_time_extensions.tables.claim import NAMES_KEPT, VALID_THROUGH, Claim, find_least
from noted_time_extensions.tables.table_history import (
    HISTORY_EXPIRED,
    NO_WATERMARK,
    START_UNKNOWN,
    ClaimStatus,
    Commit,
    TableHistory,
)

NOT_REMEMBERED = (
    "its checkpoint does not show that the batches before batch {} were written to this table"
)
MADE_AGAIN = "the table was created again after batch {}"
BATCH_LOST = (
    "batch {} is not in the table: it was rolled back, an older state was restored, or it was "
    "never written"
)
PERHAPS_LOST = "batch {} may not be in the table: its commit has expired or is lost"
NEVER_WRITTEN = (
    "batch {} is not in the table: it was neither written nor withdrawn; `claim accept` works only "
    "after batch {}"
)
NOT_WHOLE = "batch {} is not wholly in the table: its last part was not written"
IN_TABLE = (
    "batch {} of this query is in the table already, {}: the checkpoint is older than the table; "
    "{}take a new checkpoint with start_over=True"
)
WRITTEN_TWICE = (
    "batch {} was written to this table under the name {!r} before: give each write a part="
)
MANY_NAMES = "the table has claims under {} names, but a commit can contain only {}"
BATCHES_KEPT = 2  # the current batch, and the previous one, which the table must contain


class RememberedBatch(Struct, frozen=True):
    """The records stored before a batch was written, by part, or a withdrawn batch without records.

    All batches from `withdrawn_from` up to this one were withdrawn. `None` if this is not known.
    """

    batch: int
    records: Mapping[str, Claim]
    runs: Mapping[str, str] = {}
    withdrawn_from: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no other part of the batch follows."""
        return any(not (record.continues or record.merges) for record in self.records.values())


Memory = tuple[RememberedBatch, ...]


def remember_record(memory: Memory, record: Claim, run: str = "") -> Memory:
    """Return the memory with the record of a part, which may be written from now on."""
    before = _find_batch(memory, record.batch)
    records = {**before.records, record.part: record}
    runs = {**before.runs, record.part: run}
    return _replace_batch(memory, replace(before, records=records, runs=runs))


def withdraw_batch(memory: Memory, batch: int, part: str | None = None) -> Memory:
    """Return the memory without a part of a batch; a batch without records is withdrawn.

    After a batch that was neither written nor withdrawn, the memory does not change.

    >>> withdraw_batch(withdraw_batch((), 0), 1)
    (RememberedBatch(batch=1, records={}, runs={}, withdrawn_from=0),)
    >>> withdraw_batch((), 1)
    ()
    """
    before = _find_batch(memory, batch)
    records = {name: record for name, record in before.records.items() if name != part}
    return _replace_batch(memory, replace(before, records=records))


def _find_batch(memory: Memory, number: int) -> RememberedBatch:
    for batch in memory:
        if batch.batch == number:
            return batch
    return RememberedBatch(number, {})


def _replace_batch(memory: Memory, changed_batch: RememberedBatch) -> Memory:
    """Return the memory with a batch, and without the batches that it makes useless.

    These are the withdrawn batches of the same gap, and all that are older than the last
    `BATCHES_KEPT` batches with records.
    """
    number = changed_batch.batch
    is_unbroken = _find_unwritten(memory, number) == number
    first_withdrawn = None
    if is_unbroken:
        first_withdrawn = _find_last_written(memory, number) + 1
    batches: list[RememberedBatch] = []
    for batch in memory:
        is_in_gap = not batch.records and batch.withdrawn_from == first_withdrawn
        if batch.batch != number and not is_in_gap:
            batches.append(batch)
    if changed_batch.records or is_unbroken:
        batches.append(replace(changed_batch, withdrawn_from=first_withdrawn))
    written_numbers = sorted(batch.batch for batch in batches if batch.records)
    first_kept = min(written_numbers[-BATCHES_KEPT:], default=0)
    return tuple(batch for batch in batches if batch.batch >= first_kept)


def _find_last_written(memory: Sequence[RememberedBatch], number: int) -> int:
    """Return the last batch with records before a batch, or -1."""
    numbers = [batch.batch for batch in memory if batch.records]
    return max((earlier for earlier in numbers if earlier < number), default=-1)


def _find_unwritten(memory: Sequence[RememberedBatch], number: int) -> int:
    """Return the first batch that was neither written nor withdrawn, at most `number`."""
    last_written = _find_last_written(memory, number)
    withdrawn_numbers = [
        batch.batch for batch in memory if batch.withdrawn_from == last_written + 1
    ]
    last_done = max(
        (withdrawn for withdrawn in withdrawn_numbers if withdrawn <= number), default=last_written
    )
    return min(last_done + 1, number)


def _find_part(records: Iterable[Claim], part: str) -> Claim | None:
    for record in records:
        if record.part == part:
            return record
    return None


def find_committed_part(
    history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch] = (), *, run: str = ""
) -> Claim | None:
    """Return the record of this part of the batch if an earlier run committed it, else `None`.

    Three memories must agree: `history` has the commits of the table, `claim` the plan of the
    query's checkpoint, and `memory` the batches that the query stored before it wrote.

    Raises `Rejected` if the table has more of the query than the plan, so that the checkpoint is
    older than the table, or if the memory shows that this `run` has written the part before.
    """
    query_records = _list_query_records(history, claim)
    newest_number = max((record.batch for _, record in query_records), default=-1)
    if newest_number > claim.batch:
        raise _refuse_old_checkpoint(history, claim, query_records, f"and batch {newest_number}")
    batch_records = [record for _, record in query_records if record.batch == claim.batch]
    if any(record.id and record.plan != claim.plan for record in batch_records):
        raise _refuse_old_checkpoint(history, claim, query_records, "with other content")
    committed_record = _find_part(batch_records, claim.part)
    if committed_record is None or committed_record.merges:
        return committed_record
    writing_runs = [batch.runs.get(claim.part) for batch in memory if batch.batch == claim.batch]
    if run and run in writing_runs:
        raise Rejected(WRITTEN_TWICE.format(claim.batch, claim.name))
    return committed_record


def _list_query_records(history: TableHistory, claim: Claim) -> list[tuple[Commit, Claim]]:
    """Return the records that the claim's query has under its name, with their commits."""
    query_records = []
    for commit in history.commits:
        record = history.records(commit).get(claim.name)
        if record is not None and record.query == claim.query and not record.accepted:
            query_records.append((commit, record))
    return query_records


def _refuse_old_checkpoint(
    history: TableHistory, claim: Claim, query_records: Sequence[tuple[Commit, Claim]], reason: str
) -> Rejected:
    """Return the error. A snapshot of Iceberg can be named that is older than the batch."""
    first_commit = next(commit for commit, record in query_records if record.batch >= claim.batch)
    remedy = ""
    if not history.is_numbered and first_commit.parent is not None:
        remedy = f"roll it back to snapshot {first_commit.parent}, or "
    return Rejected(IN_TABLE.format(claim.batch, reason, remedy))


def prepare_commit(
    history: TableHistory,
    claim: Claim,
    memory: Sequence[RememberedBatch],
    *,
    start_over: bool = False,
) -> Claim:
    """Return the record with its predecessor and the table's other names.

    If the name's last claim has ended, or the table may lack batches, the record claims nothing.

    Raises `Rejected` for too many names, or a name of another query, unless `start_over` takes it
    over.
    """
    statuses = history.statuses()
    before = statuses.get(claim.name, ClaimStatus())
    names = list_other_names(statuses, claim.name)
    predecessor = Claim("", None)
    predecessor_at = None
    if before.claim is not None:
        predecessor = before.claim
        predecessor_at = before.at
    starts = predecessor.query not in {"", claim.query}
    if starts and not (start_over and _is_new(history, claim, memory)):
        raise Rejected(
            f"{claim.name!r} is the name of another query of this table, {predecessor.query}, and "
            f"this is {claim.query}: choose another name, continue the checkpoint of that query, "
            "or take the name over with start_over=True, which works once"
        )
    why = _find_lost_batch(history, claim, memory)
    if not why and not starts and (before.is_ended or before.why == HISTORY_EXPIRED):
        why = before.why
    return replace(
        claim,
        table=history.table,
        complete_to=None if why else claim.complete_to,
        ended=why,
        starts=starts,
        after=predecessor_at,
        after_id=predecessor.id,
        names=names,
        seen=history.version,
    )


def list_other_names(statuses: Mapping[str, ClaimStatus], name: str) -> dict[str, int | None]:
    """Return the times of all other names. Raises `Rejected` for more than a commit can contain."""
    times = {other_name: status.complete_to for other_name, status in statuses.items()}
    times.pop(name, None)
    if len(times) >= NAMES_KEPT:
        raise Rejected(MANY_NAMES.format(len(times) + 1, NAMES_KEPT))
    return times


def find_last_record(history: TableHistory) -> str:
    """Return the id of the last record in the history, or `""`."""
    for commit in reversed(history.commits):
        records = [*history.records(commit).values()]
        for record in reversed(records):
            if record.id:
                return record.id
    return ""


def format_properties(history: TableHistory, record: Claim) -> dict[str, str]:
    """Return the metadata of a commit with a record.

    They contain the table's least time as `valid-through-ts`, as Iceberg's sink for Kafka Connect
    writes it.
    """
    properties = {record.key: record.to_json()}
    if record.complete_to is None:
        return properties
    times = {**record.names, record.name: record.complete_to}
    expected_names = history.expects
    if not expected_names and len(times) == 1:
        expected_names = (record.name,)
    least_time = find_least(times.get(name) for name in expected_names)
    if least_time is not None:
        properties[VALID_THROUGH] = str(least_time)
    return properties


def _is_new(history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch]) -> bool:
    """Return whether the query has never written to the table under this name."""
    for commit in history.commits:
        record = history.records(commit).get(claim.name)
        if record is not None and record.query == claim.query:
            return False
    return _find_last_written(memory, claim.batch) < 0


def _find_lost_batch(history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch]) -> str:
    """Return why the table may lack a batch of the query, or `""`.

    Each reason is enough to claim nothing, so the order of the checks only decides which one is
    given: a table with another id comes before its lost batches, and both before a gap.
    """
    first_unwritten = _find_unwritten(memory, claim.batch)
    has_gap = first_unwritten < claim.batch
    if has_gap and not any(batch.batch < claim.batch for batch in memory):
        return NOT_REMEMBERED.format(claim.batch)
    table_ids: set[str] = set()
    for commit in history.commits:
        table_ids.update(record.id for record in history.records(commit).values())
    last_written = _find_last_written(memory, claim.batch)
    last_batches = [batch for batch in memory if batch.batch == last_written]
    batches_to_check = list(last_batches)
    if claim.complete_to is not None:
        batches_to_check += [batch for batch in memory if batch.batch == claim.batch]
    for batch in batches_to_check:
        for part, record in batch.records.items():
            if record.table and history.table and record.table != history.table:
                return MADE_AGAIN.format(batch.batch)
            is_this_part = batch.batch == claim.batch and part == claim.part
            if record.id in table_ids or is_this_part:
                continue
            if history.is_whole:
                return BATCH_LOST.format(batch.batch)
            return PERHAPS_LOST.format(batch.batch)
    if last_batches and not last_batches[0].is_whole:
        return NOT_WHOLE.format(last_written)
    if has_gap:
        return NEVER_WRITTEN.format(first_unwritten, claim.batch)
    return ""


def build_acceptance(
    history: TableHistory, comment: str, names: Iterable[str] = (), *, at: int
) -> list[Claim]:
    """Return records with an operator's acceptance of a table as of the commit `at`.

    Raises `Rejected` if no claim had ended at `at`, or `at` is not a commit of the table.
    """
    inspected_history = history.cut_at(at)
    if inspected_history is None:
        raise Rejected(f"version {at} does not lead to the table's present state")
    statuses = inspected_history.statuses()
    ended_claims = _list_ended_claims(statuses, history.statuses(), tuple(names))
    if not ended_claims:
        raise Rejected(f"no claim had ended by version {at}: there is nothing to accept")
    records = [inspected_history.records(commit) for commit in inspected_history.commits]
    last_id = find_last_record(inspected_history)
    return [
        Claim(
            claim.name,
            _find_last_time(records, claim),
            claim.time_of,
            claim.query,
            claim.batch,
            claim.part,
            plan=claim.plan,
            stream=claim.stream,
            domain=claim.domain,
            lag_ms=claim.lag_ms,
            table=history.table,
            after=at,
            after_id=last_id,
            seen=at,
            names=dict.fromkeys(statuses.keys() - {claim.name}),
            from_time=claim.from_time,
            is_from_time_stated=claim.is_from_time_stated,
            first_lower=claim.first_lower,
            max_time_ahead_ms=claim.max_time_ahead_ms,
            keeps_late_rows=claim.keeps_late_rows,
            accepted=comment,
            inherits=claim.inherits,
            at_most=claim.at_most,
        )
        for claim in ended_claims
    ]


def _list_ended_claims(
    statuses: Mapping[str, ClaimStatus],
    present_statuses: Mapping[str, ClaimStatus],
    names: Sequence[str],
) -> list[Claim]:
    """Return the claims of `names`, by default of all, that had ended and are not valid now.

    A claim that waits for its first watermark, or for where its query began, has not ended.
    """
    ended_claims = []
    for name in dict.fromkeys(names or statuses):
        status = statuses.get(name, ClaimStatus())
        is_valid_now = name in present_statuses and present_statuses[name].complete_to is not None
        if status.claim is None or status.complete_to is not None or is_valid_now:
            continue
        if status.why not in {NO_WATERMARK, START_UNKNOWN}:
            ended_claims.append(status.claim)
    return ended_claims


def _find_last_time(records: Sequence[Mapping[str, Claim]], claim: Claim) -> int | None:
    """Return the last time that a claim's query has claimed under its name, if any."""
    for commit_records in reversed(records):
        record = commit_records.get(claim.name)
        if record is not None and record.query == claim.query and record.complete_to is not None:
            return record.complete_to
    return None
