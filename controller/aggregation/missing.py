"""Which writers are missing from a stream's windows: read from the ledger, as far as it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.store.port import LedgerEntry, Store, StreamRecord
from noted_time import Aggregator
from noted_time.reading import MissingWriters
from noted_time.rules import absence_of, split_slices
from noted_time.values import MIN_INT64

ENTRIES_AT_A_TIME = 1000


def read_missing(record: StreamRecord, store: Store) -> dict[str, MissingWriters]:
    """Return by domain which writers were missing when, according to the ledger."""
    found = {}
    for domain in record.settings.domains:
        missing = MissingWriters(record.ledger_from.get(domain, MIN_INT64))
        for entry in _read_entries(store, record.id, domain):
            for _ in take_entry(missing, entry):
                pass
        found[domain] = missing
    return found


def take_entry(missing: MissingWriters, entry: LedgerEntry) -> Iterator[None]:
    """Take an entry of the ledger that is durable; yields after each slice."""
    of = entry.seq, entry.at, (entry.from_lower, entry.to_lower)
    missing.take(*of, (), entry.returned)
    for some in split_slices(entry.writers):
        missing.take(*of, some, ())
        yield


def add_forgotten(found: Mapping[str, MissingWriters], aggregator: Aggregator) -> None:
    """Add members that are missing and whose entries of the ledger are forgotten."""
    for number, (domain, missing) in enumerate(found.items()):
        for writer in aggregator.domains[domain].absences.missing - missing.open.keys():
            track = aggregator.member(writer).track(number)
            missing.begin(absence_of(track, None), seq=0, at=0)


def _read_entries(store: Store, stream_id: str, domain: str) -> Iterator[LedgerEntry]:
    after = 0
    while page := store.ledger(stream_id, domain, after=after, limit=ENTRIES_AT_A_TIME):
        yield from page
        after = page[-1].seq
