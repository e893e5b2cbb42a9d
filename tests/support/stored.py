"""Builds records of stores, each legal and with few arguments."""

from dataclasses import dataclass, field

from msgspec import UNSET

from controller.store.port import Store
from controller.store.records import (
    AppendedMark,
    BacklogRecord,
    BucketClock,
    Change,
    ChangeSet,
    LateRecord,
    LedgerEntry,
    LedgerPart,
    ReaderRecord,
    Record,
    StoredMember,
    StoredMembership,
    StoredScale,
    StreamRecord,
)
from noted_time.rules import MemberRecord
from noted_time.values import Mark, StreamCut, StreamSettings


@dataclass
class Kept:
    """All records of one stream."""

    scales: list[StoredScale] = field(default_factory=list)
    members: list[MemberRecord] = field(default_factory=list)
    memberships: list[StoredMembership] = field(default_factory=list)
    marks: dict[str, list[AppendedMark]] = field(default_factory=lambda: {"default": []})
    readers: list[ReaderRecord] = field(default_factory=list)
    ledger: list[LedgerEntry] = field(default_factory=list)
    parts: list[LedgerPart] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    backlogs: list[BacklogRecord] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)


def stream(stream_id: str = "id-1", name: str = "flights") -> StreamRecord:
    """Return a stream whose settings all differ from the defaults."""
    settings = StreamSettings(1, 2, "exclude", ("default", "ship_time"), 3, 4, 5)
    return StreamRecord(stream_id, name, settings, {"ship_time": 4900})


def member(writer: str = "UA", time: int = 5) -> MemberRecord:
    return MemberRecord(
        writer=writer,
        state="live",
        excluded=None,
        position={0: 10 * time, 3: 7},
        times={"default": time},
        max_times={},
        noted_served_ms=100 + time,
        changed_served_ms=100,
        sequence=1000 + time,
    )


def records(*members: MemberRecord, of: str = "id-1") -> list[StoredMember]:
    """Return the records of a stream's members."""
    return [StoredMember(of, member) for member in members]


def mark(seq: int, stream_id: str = "id-1", domain: str = "default") -> AppendedMark:
    cut = StreamCut({0: 10 * seq})
    excluded_writers = ("DL",) if seq % 2 else ()
    last_writer = None if excluded_writers else "UA"
    count = 500 if seq == 3 else UNSET
    mark = Mark(seq, seq, seq + 4, cut, 1000 + seq, excluded_writers, excluded_count=count)
    return AppendedMark(stream_id, domain, mark, seq, last_writer)


def change(at: int, of: str = "id-1") -> Change:
    return Change(
        of,
        1000 - at,
        at,
        "timeout_suspended",
        "UA",
        None,
        {"for_ms": 5, "suspension_ends_at": at + 5},
        "ops",
        "it is slow",
    )


def commit(store: Store, *written: Record, at: int = 2) -> None:
    """Write the records at a time of the service clock."""
    store.commit(ChangeSet(BucketClock(0, at), *written))


def build_changes(*more: Record, served_ms: int = 1, upto: int = 0) -> ChangeSet:
    """Return the changes that make a stream with the marks 1 to `upto`, and more records."""
    marks = [mark(seq) for seq in range(1, upto + 1)]
    return ChangeSet(BucketClock(0, served_ms), stream(), *marks, *more)


def read_seqs(store: Store, stream_id: str = "id-1", domain: str = "default") -> list[int]:
    return [appended_mark.mark.seq for appended_mark in store.marks(stream_id, domain)]


def read_kept(
    store: Store, stream_id: str = "id-1", domains: tuple[str, ...] = ("default",)
) -> Kept:
    return Kept(
        scales=store.load(StoredScale, stream_id),
        members=list(store.members(stream_id)),
        memberships=store.load(StoredMembership, stream_id),
        marks={domain: list(store.marks(stream_id, domain)) for domain in domains},
        readers=store.load(ReaderRecord, stream_id),
        ledger=store.load(LedgerEntry, stream_id),
        parts=store.load(LedgerPart, stream_id),
        changes=store.changes(stream_id, before=None, limit=1000),
        backlogs=store.load(BacklogRecord, stream_id),
        late=store.load(LateRecord, stream_id),
    )
