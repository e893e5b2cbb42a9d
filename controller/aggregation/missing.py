"""Reads from the ledger which writers are missing from a stream's windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from controller.aggregation.membership_rows import MembershipRows
from controller.store.port import Reading, Store
from controller.store.records import LedgerEntry, LedgerPart, StreamRecord
from noted_time.answers import EntryAnswer
from noted_time.coding import encode
from noted_time.reading import MissingWriters
from noted_time.rules import Aggregator, ReportedAbsence, split_slices
from noted_time.values import MIN_INT64


def read_missing(
    record: StreamRecord, store: Store, rows: MembershipRows
) -> dict[str, MissingWriters]:
    """Read the ledger of each domain, and complete the rows of memberships."""
    by_domain = {}
    names: dict[str, str] = {}
    for domain in record.settings.domains:
        missing = MissingWriters(record.ledger_from_time.get(domain, MIN_INT64))
        for entry in store.whole_ledger(record.id, domain):
            for part in list_parts(entry, store):
                for _ in take_part(missing, part):
                    pass
                rows.complete(domain, part.seq, part.writers, part.returned_writers)
        missing.share_names(names)
        by_domain[domain] = missing
    return by_domain


def list_parts(entry: LedgerEntry, reading: Reading) -> Iterator[LedgerPart]:
    """Yield the stored parts of the entry, and the entry's own writers as the last part."""
    if entry.part_count:
        parts = reading.ledger_parts(entry.stream_id, entry.domain, entry.answer.seq)
        yield from islice(parts, entry.part_count)
    yield build_own_part(entry)


def build_own_part(entry: LedgerEntry) -> LedgerPart:
    """Return the entry's own writers as its last part."""
    answer = entry.answer
    return LedgerPart(
        entry.stream_id,
        entry.domain,
        answer.seq,
        entry.part_count,
        entry.appended_served_ms,
        answer.from_lower,
        answer.to_lower,
        answer.writers,
        answer.returned_writers,
    )


def take_part(missing: MissingWriters, part: LedgerPart) -> Iterator[None]:
    """Add the writers in slices. Removed writers come last, because their intervals end last."""
    mark = part.seq, part.appended_served_ms, (part.from_lower, part.to_lower)
    if part.returned_writers:
        missing.take(*mark, (), part.returned_writers)
    writers = sorted(part.writers, key=lambda absence: absence.reason == "removed")
    for absences in split_slices(writers):
        missing.take(*mark, absences, ())
        yield


def merge_parts(entry: LedgerEntry, reading: Reading) -> tuple[EntryAnswer, int]:
    """Return the answer with the writers of all parts, and how many there are.

    They are encoded part by part, because all at once would take much memory.
    """
    count = 0
    writers: list[bytes] = []
    returned_writers: list[bytes] = []
    for part in list_parts(entry, reading):
        count += len(part.writers) + len(part.returned_writers)
        writers.append(encode(part.writers))
        returned_writers.append(encode(part.returned_writers))
    arrays: Any = {
        "writers": _join_arrays(writers),
        "returned_writers": _join_arrays(returned_writers),
    }
    return replace(entry.answer, **arrays), count


def _join_arrays(arrays: Iterable[bytes]) -> Raw:
    """Return one JSON array with the items of all.

    >>> bytes(_join_arrays([b"[1,2]", b"[]", b"[3]"]))
    b'[1,2,3]'
    """
    items = (array.removeprefix(b"[").removesuffix(b"]") for array in arrays)
    return Raw(b"[" + b",".join(filter(None, items)) + b"]")


def connect(by_domain: Mapping[str, MissingWriters], aggregator: Aggregator) -> None:
    """Let the rosters find the absences of forgotten writers, so that they keep no copy."""
    for domain, missing in by_domain.items():
        aggregator.domains[domain].roster.find_recorded = partial(_find_reported, missing)


def _find_reported(missing: MissingWriters, writer: str) -> ReportedAbsence | None:
    open_absence = missing.find_open(writer)
    if open_absence is None:
        return None
    absence, first_seq = open_absence
    from_time = absence.from_time if isinstance(absence.from_time, int) else None
    return ReportedAbsence(
        first_seq, absence.reason, absence.began_at, absence.last_time, from_time
    )


def add_reported(by_domain: Mapping[str, MissingWriters], aggregator: Aggregator) -> None:
    """Add the absences of members whose first entry in the ledger has been deleted."""
    for number, (domain, missing) in enumerate(by_domain.items()):
        roster = aggregator.domains[domain].roster
        for writer in roster.missing - roster.forgotten.keys():
            reported_absence = aggregator.member(writer).track(number).membership.reported
            if reported_absence is not None:
                missing.begin_outlived(reported_absence.name_writer(writer), reported_absence.seq)
