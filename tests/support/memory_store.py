"""A store and tokens in memory, with the contracts of a database."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from controller.store.port import (
    STREAM_PARTS,
    AppendedMark,
    BacklogRecord,
    Change,
    LateKey,
    LateRecord,
    LedgerEntry,
    ReaderRecord,
    StoreUnavailable,
    StreamRecord,
    StreamSummary,
    Transaction,
    check_marks,
    find_stream_id,
)
from controller.store.sqlite import SingleNodeLeases
from controller.store.token_table import TokenRecord, Tokens
from noted_time import Conflict, Mark, MemberRecord, ScaleEvent
from noted_time.answers import Replica

V = TypeVar("V")


@dataclass(slots=True)
class KeptStream:
    """All records of one stream, by key."""

    record: StreamRecord | None = None
    scales: dict[int, ScaleEvent] = field(default_factory=dict)
    members: dict[str, MemberRecord] = field(default_factory=dict)
    marks: defaultdict[str, dict[int, AppendedMark]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    readers: dict[tuple[str, str], ReaderRecord] = field(default_factory=dict)
    backlogs: dict[str, BacklogRecord] = field(default_factory=dict)
    late: dict[LateKey, LateRecord] = field(default_factory=dict)
    ledger: defaultdict[str, dict[int, LedgerEntry]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    changes: dict[int, Change] = field(default_factory=dict)


class MemoryStore(SingleNodeLeases):
    """A `Store` of dicts, durable as long as the object."""

    def __init__(self) -> None:
        self._clocks = {0: 0}
        self._streams: dict[str, KeptStream] = {}
        self._secret = secrets.token_urlsafe().encode()
        self._closed = False

    def clocks(self) -> dict[int, int]:
        self.ping()
        return dict(self._clocks)

    def streams(self) -> list[StreamRecord]:
        self.ping()
        records = (each.record for each in self._streams.values() if each.record)
        return sorted(records, key=lambda record: record.name)

    def names(self) -> list[str]:
        return [record.name for record in self.streams()]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        return [
            StreamSummary(record, self._last_marks(record), self.scales(record.id))
            for record in self.streams()
            if record.name in names
        ]

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        return _in_order(self._kept(stream_id).scales)

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        return iter(_in_order(self._kept(stream_id).members))

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        return iter(list(self._kept(stream_id).marks[domain].values()))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        return _in_order(self._kept(stream_id).readers)

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        return _in_order(self._kept(stream_id).backlogs)

    def late(self, stream_id: str) -> list[LateRecord]:
        return _in_order(self._kept(stream_id).late)

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        entries = _in_order(self._kept(stream_id).ledger[domain])
        if newest_first:
            return [each for each in reversed(entries) if not after or each.seq < after][:limit]
        return [entry for entry in entries if entry.seq > after][:limit]

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        kept = reversed(self._kept(stream_id).changes.items())
        return [each for each in kept if before is None or each[0] < before][:limit]

    def replicas_secret(self) -> bytes:
        self.ping()
        return self._secret

    def replicas(self) -> list[Replica]:
        """Return no controllers: none shares the store."""
        return []

    def risk(self) -> str | None:
        return None

    def damage(self) -> str | None:
        return None

    def commit(self, batch: Transaction) -> None:
        self.ping()
        batch = batch.without_dropped()
        self._check(batch)
        for stream_id in batch.dropped:
            self._streams.pop(stream_id, None)
        for record in batch.streams:
            self._streams.setdefault(record.id, KeptStream()).record = record
        self._clocks |= batch.clocks
        self._keep(batch)
        self._forget(batch)

    def ping(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def close(self) -> None:
        self._closed = True

    def _kept(self, stream_id: str) -> KeptStream:
        self.ping()
        return self._streams.get(stream_id) or KeptStream()

    def _last_marks(self, record: StreamRecord) -> dict[str, Mark]:
        chains = {domain: [*self.marks(record.id, domain)] for domain in record.settings.domains}
        return {domain: chain[-1].mark for domain, chain in chains.items() if chain}

    def _check(self, batch: Transaction) -> None:
        """Raise `Conflict` if the batch contradicts the records, or itself."""
        made = {record.id for record in batch.streams}
        parts = (getattr(batch, name) for name in STREAM_PARTS if not name.startswith("forgotten"))
        written = {find_stream_id(each) for part in parts for each in part}
        missing = written - made - self._streams.keys()
        if missing:
            raise Conflict(f"there is no stream with the id {min(missing)!r}")
        self._check_names(batch)
        events = [(stream_id, seq) for stream_id, seq, _ in batch.scales]
        if _repeats(events) or any(seq in self._kept(of).scales for of, seq in events):
            raise Conflict("there is a scale event of that number already")
        entries = [(entry.stream_id, entry.domain, entry.seq) for entry in batch.ledger]
        kept = (seq in self._kept(of).ledger[domain] for of, domain, seq in entries)
        if _repeats(entries) or any(kept):
            raise Conflict("there is an entry of the ledger for that mark already")
        chains = {(mark.stream_id, mark.domain) for mark in batch.marks}
        lasts = {(of, name): next(reversed(self._kept(of).marks[name]), 0) for of, name in chains}
        check_marks(lasts, batch.marks)

    def _check_names(self, batch: Transaction) -> None:
        if not batch.streams:
            return
        owners = {record.name: record.id for record in self.streams()}
        names = {stream_id: name for name, stream_id in owners.items()}
        for stream_id in names.keys() & set(batch.dropped):
            del owners[names.pop(stream_id)]
        for record in batch.streams:
            if owners.get(record.name, record.id) != record.id:
                raise Conflict(f"another stream is named {record.name!r}")
            if record.id in names:
                del owners[names[record.id]]
            owners[record.name], names[record.id] = record.id, record.name

    def _keep(self, batch: Transaction) -> None:
        """Write the records, after forgetting those that may come back in the batch."""
        streams = self._streams
        for stream_id, seq, event in batch.scales:
            streams[stream_id].scales[seq] = event
        for stream_id, writer in batch.forgotten_members:
            self._kept(stream_id).members.pop(writer, None)
        for stream_id, member in batch.members:
            streams[stream_id].members[member.writer] = _copied(member)
        for mark in batch.marks:
            streams[mark.stream_id].marks[mark.domain][mark.mark.seq] = mark
        self._keep_groups(batch)
        for key in batch.forgotten_late:
            self._kept(key[0]).late.pop(key, None)
        for late in batch.late:
            streams[late.stream_id].late[late.key] = late
        for entry in batch.ledger:
            streams[entry.stream_id].ledger[entry.domain][entry.seq] = entry
        for change in batch.changes:
            changes = streams[change.stream_id].changes
            changes[max(changes, default=0) + 1] = change

    def _keep_groups(self, batch: Transaction) -> None:
        for stream_id, group, name in batch.forgotten_readers:
            self._kept(stream_id).readers.pop((group, name), None)
        for reader in batch.readers:
            kept = replace(reader, position=dict(reader.position))
            self._streams[reader.stream_id].readers[reader.group, reader.reader] = kept
        for stream_id, group in batch.forgotten_backlogs:
            self._kept(stream_id).backlogs.pop(group, None)
        for backlog in batch.backlogs:
            self._streams[backlog.stream_id].backlogs[backlog.group] = backlog

    def _forget(self, batch: Transaction) -> None:
        """Drop old records, except the last mark and change of each stream."""
        for stream_id, before in batch.forgotten_ledger:
            for entries in self._kept(stream_id).ledger.values():
                for seq in [seq for seq, entry in entries.items() if entry.served_at < before]:
                    del entries[seq]
        for stream_id, before in batch.forgotten_changes:
            changes = self._kept(stream_id).changes
            for number in [n for n in list(changes)[:-1] if changes[n].served_at < before]:
                del changes[number]
        for stream_id, domain, upto in batch.forgotten:
            marks = self._kept(stream_id).marks[domain]
            for seq in [seq for seq in list(marks)[:-1] if seq <= upto]:
                del marks[seq]


class MemoryTokens(Tokens):
    """A `Tokens` in memory."""

    def __init__(self) -> None:
        self._records: dict[str, TokenRecord] = {}

    def counts(self) -> tuple[int, int]:
        revoked = sum(each.revoked_at is not None for each in self._records.values())
        return len(self._records), revoked

    def all(self) -> list[TokenRecord]:
        return sorted(self._records.values(), key=lambda record: (record.created_at, record.id))

    def add(self, record: TokenRecord) -> None:
        if record.id in self._records:
            raise Conflict(f"there is a token {record.id} already")
        self._records[record.id] = record

    def revoke(self, token_id: str, at_ms: int) -> bool:
        found = self._records.get(token_id)
        if found is None or found.revoked_at is not None:
            return False
        self._records[token_id] = replace(found, revoked_at=at_ms)
        return True

    def close(self) -> None:
        """See `Tokens`."""


def _in_order(of: Mapping[Any, V]) -> list[V]:
    return [of[key] for key in sorted(of)]


def _repeats(keys: Sequence[object]) -> bool:
    return len(set(keys)) < len(keys)


def _copied(member: MemberRecord) -> MemberRecord:
    return member._replace(
        position=dict(member.position),
        times=dict(member.times),
        max_times=dict(member.max_times),
        exclusions=dict(member.exclusions),
    )
