"""Records that every store keeps and drops."""

from typing import get_type_hints

from msgspec.structs import replace

from controller.store.port import Store
from controller.store.records import (
    BacklogRecord,
    Change,
    ChangeSet,
    LateRecord,
    LedgerEntry,
    LedgerPart,
    ReaderRecord,
    Record,
    StoredScale,
    StreamRecord,
    StreamRecordChanges,
)
from noted_time import BacklogPolicy
from noted_time.answers import EntryAnswer
from noted_time.values import LateReport, ScaleEvent
from tests.support.stored import (
    Kept,
    build_changes,
    change,
    commit,
    mark,
    member,
    read_kept,
    read_seqs,
    records,
    stream,
)

POLICY = BacklogPolicy(watermark_lag_ms=1000, reader_lag_ms=None, rule="sticky")


def list_numbers(store: Store, stream_id: str = "id-1") -> list[int]:
    """Return the numbers of a stream's changes, newest first."""
    return [change.number for change in store.changes(stream_id, before=None, limit=1000)]


def make_entry(seq: int, stream_id: str = "id-1", domain: str = "default") -> LedgerEntry:
    return LedgerEntry(stream_id, domain, seq, EntryAnswer(seq, 1000 - seq, seq - 1, seq, ()))


def drop_old(kind: type[Record], before: int, *records: Record) -> ChangeSet:
    """Return a batch that writes records and drops old ones of the first stream."""
    batch = ChangeSet(*records)
    batch.drop_old(kind, "id-1", before)
    return batch


def drop_stream(*records: Record) -> ChangeSet:
    """Return a batch that writes records and drops the first stream."""
    batch = ChangeSet(*records)
    batch.drop(StreamRecord, "id-1")
    return batch


def test_last_put_or_drop_of_batch_counts(store: Store) -> None:
    """Here for backlogs, one of which was stored before."""
    record = BacklogRecord("id-1", "g", POLICY)
    store.commit(build_changes(record))
    changed_records = [
        replace(record, backlog_began_at=3),
        replace(record, backlog_began_at=4, policy=None),
    ]
    batch = ChangeSet(BacklogRecord("id-1", "dropped"))
    batch.drop(BacklogRecord, "id-1", "dropped")
    batch.drop(BacklogRecord, "id-1", "g")
    batch.put(*changed_records)
    store.commit(batch)

    assert store.load(BacklogRecord, "id-1") == changed_records[1:]


def test_ledger_is_read_in_both_directions(store: Store) -> None:
    entries = []
    for seq in (3, 1, 7, 5):
        entries += [make_entry(seq, domain="default"), make_entry(seq, domain="ship_time")]
    store.commit(build_changes(*entries))

    def read(after: int, *, newest_first: bool) -> list[int]:
        entries = store.ledger("id-1", "default", after=after, limit=2, newest_first=newest_first)
        return [entry.answer.seq for entry in entries]

    assert read(0, newest_first=False) == [1, 3]
    assert read(3, newest_first=False) == [5, 7]
    assert read(4, newest_first=False) == [5, 7]
    assert read(7, newest_first=False) == []
    assert read(0, newest_first=True) == [7, 5]
    assert read(5, newest_first=True) == [3, 1]
    assert read(4, newest_first=True) == [3, 1]
    assert read(1, newest_first=True) == []
    whole_ledger = [entry.answer.seq for entry in store.whole_ledger("id-1", "default")]
    assert whole_ledger == [1, 3, 5, 7]


def test_old_ledger_entries_are_dropped_by_served_time(store: Store) -> None:
    """Their wall times fall here and are ignored. Entries of other streams stay."""
    entries = [make_entry(seq, stream_id="id-1") for seq in (1, 2, 3)]
    entries += [make_entry(seq, stream_id="id-2") for seq in (1, 2, 3)]
    commit(store, stream(), stream("id-2", "ships"), *entries)

    store.commit(drop_old(LedgerEntry, 3))

    assert [*read_kept(store).ledger, *read_kept(store, "id-2").ledger] == entries[2:]


def make_part(seq: int, number: int) -> LedgerPart:
    return LedgerPart("id-1", "default", seq, number, seq, seq - 1, seq, returned_writers=("a",))


def test_parts_of_an_entry_are_kept_with_it(store: Store) -> None:
    """Those without an entry are deleted once they are old."""
    parts = []
    for seq in (1, 2, 3):
        parts += [make_part(seq, 0), make_part(seq, 1)]
    commit(store, stream(), make_entry(2), *parts)
    of_entry = [*store.ledger_parts("id-1", "default", 2)]

    store.commit(drop_old(LedgerPart, 3))

    assert (of_entry, read_kept(store).parts) == (parts[2:4], parts[2:])
    store.commit(ChangeSet(replace(parts[2], to_lower=9)))
    assert [part.to_lower for part in store.ledger_parts("id-1", "default", 2)] == [9, 2]


def make_late(writer: str) -> LateRecord:
    """Return a late row that was reported once."""
    report = LateReport(writer, 1, 5, 5, 7, 7, seen_served_ms=4)
    return LateRecord("id-1", "default", *report.place, report)


def test_changes_are_loaded_newest_first(store: Store) -> None:
    """All fields may be set, or none."""
    settings = {"domains": ["a"], "max_time_ahead_ms": None}
    changes = [
        change(1),
        Change("id-1", 9, 2, "settings", None, settings, {"domains": []}),
        change(3),
    ]

    store.commit(build_changes(*changes))

    stored_changes = store.changes("id-1", before=None, limit=9)
    assert stored_changes == [replace(changes[number - 1], number=number) for number in (3, 2, 1)]


def test_changes_are_numbered_by_stream(store: Store) -> None:
    """Numbers continue over batches."""
    store.commit(build_changes(change(1)))
    changes = [change(2), change(2, "id-2"), change(2), change(2, "id-2")]
    commit(store, stream("id-2", "ships"), *changes)

    assert (list_numbers(store), list_numbers(store, "id-2")) == ([3, 2, 1], [2, 1])


def test_old_changes_are_dropped_except_last(store: Store) -> None:
    """So numbers continue. Changes of other streams stay."""
    streams = [stream(), stream("id-2", "ships")]
    changes = [change(1), change(2), change(3), change(1, "id-2"), change(2, "id-2")]
    commit(store, *streams, *changes)

    store.commit(drop_old(Change, 3))
    numbers = list_numbers(store)
    store.commit(drop_old(Change, 99, change(5)))
    store.commit(drop_old(Change, 99))
    commit(store, change(6))

    assert (numbers, list_numbers(store), list_numbers(store, "id-2")) == ([3], [5, 4], [2, 1])


def test_change_survives_drop_of_old_ones_in_its_batch(store: Store) -> None:
    """Puts come before drops of old records."""
    store.commit(build_changes(change(1)))

    store.commit(drop_old(Change, 99, change(2)))

    assert list_numbers(store) == [2]


# Drops


def test_drop_of_marks_keeps_later_and_other_chains(store: Store) -> None:
    """Marks up to and including the seq are dropped, in one domain."""
    store.commit(build_changes(upto=4))
    commit(store, *(mark(seq, domain="ship_time") for seq in (1, 2, 3)))

    batch = ChangeSet()
    batch.drop_marks("id-1", "default", 2)
    store.commit(batch)

    assert (read_seqs(store), read_seqs(store, domain="ship_time")) == ([3, 4], [1, 2, 3])


def test_drop_of_stream_drops_its_records(store: Store) -> None:
    """Records of other streams stay."""
    full = build_changes(
        stream("id-2", "ships"),
        StoredScale("id-1", 1, ScaleEvent({0: 5}, {})),
        *(*records(member()), *records(member(), of="id-2")),
        ReaderRecord("id-1", "g", "a", online=True, position={}),
        BacklogRecord("id-1", "g"),
        make_late("UA"),
        change(1),
        upto=2,
    )
    store.commit(full)

    store.commit(drop_stream())

    assert store.streams() == [stream("id-2", "ships")]
    assert (read_kept(store), read_kept(store, "id-2")) == (Kept(), Kept(members=[member()]))


def test_recreated_stream_has_no_records(store: Store) -> None:
    """One batch may drop the old stream and make the new one."""
    store.commit(build_changes(*records(member()), upto=2))
    record = stream("id-2")

    store.commit(drop_stream(record, mark(1, "id-2")))

    assert (store.streams(), read_seqs(store), read_seqs(store, "id-2")) == ([record], [], [1])


def test_batch_that_drops_stream_writes_nothing_to_it(store: Store) -> None:
    store.commit(build_changes(upto=2))

    store.commit(drop_stream(*records(member()), change(1)))

    assert (store.streams(), read_kept(store)) == ([], Kept())


def test_changes_have_the_fields_of_a_stream_record() -> None:
    """The id and the name never change."""
    hints = get_type_hints(StreamRecord)
    fields = {name: hints[name] for name in StreamRecord.__struct_fields__}

    assert get_type_hints(StreamRecordChanges) == {
        name: hint for name, hint in fields.items() if name not in {"id", "name"}
    }
