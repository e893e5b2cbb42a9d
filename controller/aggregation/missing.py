"""Reads from the ledger which writers are missing from a stream's windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.store.port import Store
from controller.store.records import LedgerEntry, StreamRecord
from noted_time.reading import MissingWriters
from noted_time.rules import Aggregator, ReportedAbsence, split_slices
from noted_time.values import MIN_INT64

ENTRIES_AT_A_TIME = 1000


def read_missing(record: StreamRecord, store: Store) -> dict[str, MissingWriters]:
    by_domain = {}
    for domain in record.settings.domains:
        missing = MissingWriters(record.ledger_from_time.get(domain, MIN_INT64))
        for entry in _read_entries(store, record.id, domain):
            for _ in take_entry(missing, entry):
                pass
        by_domain[domain] = missing
    return by_domain


def take_entry(missing: MissingWriters, entry: LedgerEntry) -> Iterator[None]:
    answer = entry.answer
    mark = answer.seq, entry.appended_served_ms, (answer.from_lower, answer.to_lower)
    missing.take(*mark, (), answer.returned_writers)
    for some in split_slices(answer.writers):
        missing.take(*mark, some, ())
        yield


def list_open(missing: MissingWriters) -> dict[str, ReportedAbsence]:
    """Return the absences that have not ended, by writer."""
    absences = {}
    for writer, interval in missing.open.items():
        absence, start = interval.absence, interval.start
        from_time = None if start == MIN_INT64 else start
        absences[writer] = ReportedAbsence(
            interval.first_seq, absence.reason, absence.began_at, absence.last_time, from_time
        )
    return absences


def add_reported(by_domain: Mapping[str, MissingWriters], aggregator: Aggregator) -> None:
    """Add the absences of members whose first entry in the ledger has been deleted."""
    for number, (domain, missing) in enumerate(by_domain.items()):
        roster = aggregator.domains[domain].roster
        for writer in roster.missing - roster.forgotten.keys():
            reported = aggregator.member(writer).track(number).membership.reported
            if reported is not None:
                missing.begin_outlived(reported.name_writer(writer), reported.seq)


def _read_entries(store: Store, stream_id: str, domain: str) -> Iterator[LedgerEntry]:
    after = 0
    while page := store.ledger(stream_id, domain, after=after, limit=ENTRIES_AT_A_TIME):
        yield from page
        after = page[-1].answer.seq
