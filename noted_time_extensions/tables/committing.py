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
from noted_time_extensions.tables.claim import NAMES_KEPT, VALID_THROUGH, Claim
from noted_time_extensions.tables.table_history import (
    HISTORY_EXPIRED,
    NO_WATERMARK,
    START_UNKNOWN,
    ClaimStatus,
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


def _find_batch(memory: Memory, batch: int) -> RememberedBatch:
    batches = (remembered_batch for remembered_batch in memory if remembered_batch.batch == batch)
    return next(batches, RememberedBatch(batch, {}))


def _replace_batch(memory: Memory, changed_batch: RememberedBatch) -> Memory:
    batch = changed_batch.batch
    is_unbroken = _find_unwritten(memory, batch) == batch
    first = _find_last_written(memory, batch) + 1 if is_unbroken else None
    kept_batches = [
        remembered_batch
        for remembered_batch in memory
        if remembered_batch.batch != batch
        and (remembered_batch.records or remembered_batch.withdrawn_from != first)
    ]
    if changed_batch.records or is_unbroken:
        kept_batches.append(replace(changed_batch, withdrawn_from=first))
    written_batches = sorted(
        remembered_batch.batch for remembered_batch in kept_batches if remembered_batch.records
    )[-BATCHES_KEPT:]
    return tuple(
        remembered_batch
        for remembered_batch in kept_batches
        if remembered_batch.batch >= min(written_batches, default=0)
    )


def _find_last_written(memory: Sequence[RememberedBatch], batch: int) -> int:
    return max(
        (
            remembered_batch.batch
            for remembered_batch in memory
            if remembered_batch.records and remembered_batch.batch < batch
        ),
        default=-1,
    )


def _find_unwritten(memory: Sequence[RememberedBatch], batch: int) -> int:
    """Return the first batch that was neither written nor withdrawn, at most `batch`."""
    last = _find_last_written(memory, batch)
    withdrawn_batches = [
        remembered_batch.batch
        for remembered_batch in memory
        if remembered_batch.withdrawn_from == last + 1 and remembered_batch.batch <= batch
    ]
    return min(max(withdrawn_batches, default=last) + 1, batch)


def find_committed_part(
    history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch] = (), *, run: str = ""
) -> Claim | None:
    """Return the record of this part of the batch if an earlier run committed it.

    Raises `Rejected` if this `run` has written the part before, or if the checkpoint is older than
    the table.
    """
    query_records = [
        (commit, record)
        for commit in history.commits
        for name, record in history.records(commit).items()
        if (name, record.query) == (claim.name, claim.query) and not record.accepted
    ]
    newest = max((record.batch for _, record in query_records), default=-1)
    batch_records = [
        (commit, record) for commit, record in query_records if record.batch == claim.batch
    ]
    if newest > claim.batch or any(
        record.id and record.plan != claim.plan for _, record in batch_records
    ):
        later_commit = next(
            commit for commit, record in query_records if record.batch >= claim.batch
        )
        reason = f"and batch {newest}" if newest > claim.batch else "with other content"
        before = (
            f"roll it back to snapshot {later_commit.parent}, or "
            if not history.is_numbered
            else ""
        )
        raise Rejected(
            IN_TABLE.format(claim.batch, reason, before * (later_commit.parent is not None))
        )
    committed_record = next(
        (record for _, record in batch_records if record.part == claim.part), None
    )
    runs = {
        remembered_batch.runs.get(claim.part)
        for remembered_batch in memory
        if remembered_batch.batch == claim.batch
    }
    if committed_record is not None and run in runs - {""} and not committed_record.merges:
        raise Rejected(WRITTEN_TWICE.format(claim.batch, claim.name))
    return committed_record


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
    holder = before.claim.query if before.claim is not None else ""
    starts = holder not in {"", claim.query}
    if starts and not (start_over and _is_new(history, claim, memory)):
        raise Rejected(
            f"{claim.name!r} is the name of another query of this table, {holder}, and this is "
            f"{claim.query}: choose another name, continue the checkpoint of that query, or take "
            "the name over with start_over=True, which works once"
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
        after=before.at if before.claim is not None else None,
        after_id=before.claim.id if before.claim is not None else "",
        names=names,
        seen=history.version,
    )


def list_other_names(statuses: Mapping[str, ClaimStatus], name: str) -> dict[str, int | None]:
    names = {
        other_name: status.complete_to
        for other_name, status in statuses.items()
        if other_name != name
    }
    if len(names) >= NAMES_KEPT:
        raise Rejected(MANY_NAMES.format(len(names) + 1, NAMES_KEPT))
    return names


def find_last_record(history: TableHistory) -> str:
    records = (history.records(commit).values() for commit in reversed(history.commits))
    ids = ([claim.id for claim in commit_records if claim.id] for commit_records in records)
    return next((commit_ids[-1] for commit_ids in ids if commit_ids), "")


def format_properties(history: TableHistory, record: Claim) -> dict[str, str]:
    """Return the metadata of a commit with a record.

    They contain the table's least time as `valid-through-ts`, as Iceberg's sink for Kafka Connect
    writes it.
    """
    properties = {record.key: record.to_json()}
    if record.complete_to is not None:
        times = {**record.names, record.name: record.complete_to}
        expects = history.expects or (times if len(times) == 1 else ())
        expected_times = [times.get(name) for name in expects]
        least_time = min((time for time in expected_times if time is not None), default=None)
        if least_time is not None and None not in expected_times:
            properties[VALID_THROUGH] = str(least_time)
    return properties


def _is_new(history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch]) -> bool:
    records = [history.records(commit).get(claim.name) for commit in history.commits]
    is_known = any(record is not None and record.query == claim.query for record in records)
    return not is_known and _find_last_written(memory, claim.batch) < 0


def _find_lost_batch(history: TableHistory, claim: Claim, memory: Sequence[RememberedBatch]) -> str:
    unwritten = _find_unwritten(memory, claim.batch)
    if unwritten < claim.batch and not any(
        remembered_batch.batch < claim.batch for remembered_batch in memory
    ):
        return NOT_REMEMBERED.format(claim.batch)
    known_ids = {
        record.id for commit in history.commits for record in history.records(commit).values()
    }
    last_batches = [
        remembered_batch
        for remembered_batch in memory
        if remembered_batch.batch == _find_last_written(memory, claim.batch)
    ]
    current_batches = [
        remembered_batch
        for remembered_batch in memory
        if remembered_batch.batch == claim.batch and claim.complete_to is not None
    ]
    for remembered_batch in [*last_batches, *current_batches]:
        for part, record in remembered_batch.records.items():
            if record.table and history.table and record.table != history.table:
                return MADE_AGAIN.format(remembered_batch.batch)
            if record.id not in known_ids and (remembered_batch.batch, part) != (
                claim.batch,
                claim.part,
            ):
                sentence = BATCH_LOST if history.is_whole else PERHAPS_LOST
                return sentence.format(remembered_batch.batch)
    if last_batches and not last_batches[0].is_whole:
        return NOT_WHOLE.format(last_batches[0].batch)
    return NEVER_WRITTEN.format(unwritten, claim.batch) if unwritten < claim.batch else ""


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
    wanted_statuses = {
        name: statuses[name] for name in tuple(names) or statuses if name in statuses
    }
    valid_names = {
        name for name, status in history.statuses().items() if status.complete_to is not None
    }
    ended_statuses = [
        status
        for name, status in wanted_statuses.items()
        if status.complete_to is None and name not in valid_names
    ]
    waiting = (NO_WATERMARK, START_UNKNOWN)
    lost_claims = [
        status.claim
        for status in ended_statuses
        if status.claim is not None and status.why not in waiting
    ]
    if not lost_claims:
        raise Rejected(f"no claim had ended by version {at}: there is nothing to accept")
    records = [inspected_history.records(commit) for commit in inspected_history.commits]
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
            after_id=find_last_record(inspected_history),
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
        for claim in lost_claims
    ]


def _find_last_time(records: Sequence[Mapping[str, Claim]], claim: Claim) -> int | None:
    name_records = (
        commit_records[claim.name]
        for commit_records in reversed(records)
        if claim.name in commit_records
    )
    times = (record.complete_to for record in name_records if record.query == claim.query)
    return next((time for time in times if time is not None), None)
