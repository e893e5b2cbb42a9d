"""A store and tokens in memory, with the contracts of a database."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from controller.store.port import StoreUnavailable, StreamSummary, check_marks
from controller.store.records import (
    RECORD_KINDS,
    AppendedMark,
    BucketClock,
    Change,
    ChangeSet,
    Key,
    LedgerEntry,
    LedgerPart,
    R,
    Record,
    StoredMember,
    StoredScale,
    StreamRecord,
    TokenRecord,
)
from controller.store.sqlite import SingleNodeLeases
from controller.store.token_table import Tokens
from noted_time import Conflict, Mark
from noted_time.answers import Replica
from noted_time.rules import MemberRecord

Table = defaultdict[str, dict[Key, Any]]  # records by the id of their stream, and by key


class MemoryStore(SingleNodeLeases):
    """A `Store` of dicts, durable as long as the object."""

    def __init__(self) -> None:
        self._clocks = {0: 0}
        self.tables: dict[type[Record], Table] = {kind: defaultdict(dict) for kind in RECORD_KINDS}
        self._secret = secrets.token_urlsafe().encode()
        self._closed = False

    def clocks(self) -> dict[int, int]:
        self.ping()
        return dict(self._clocks)

    def streams(self) -> list[StreamRecord]:
        self.ping()
        records = [each for one in self.tables[StreamRecord].values() for each in one.values()]
        return sorted(records, key=lambda record: record.name)

    def names(self) -> list[str]:
        return [record.name for record in self.streams()]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        return [
            StreamSummary(
                record,
                self._last_marks(record),
                [each.event for each in self.load(StoredScale, record.id)],
            )
            for record in self.streams()
            if record.name in names
        ]

    def load(self, kind: type[R], stream_id: str) -> list[R]:
        self.ping()
        records = self.tables[kind].get(stream_id, {})
        return [records[key] for key in sorted(records)]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        return iter([each.member for each in self.load(StoredMember, stream_id)])

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        found = self.load(AppendedMark, stream_id)
        return iter([each for each in found if each.domain == domain])

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        found = [each for each in self.load(LedgerEntry, stream_id) if each.domain == domain]
        if newest_first:
            return [e for e in reversed(found) if not after or e.answer.seq < after][:limit]
        return [each for each in found if each.answer.seq > after][:limit]

    def ledger_parts(self, stream_id: str, domain: str, seq: int) -> Iterator[LedgerPart]:
        found = self.load(LedgerPart, stream_id)
        return iter([each for each in found if (each.domain, each.seq) == (domain, seq)])

    def whole_ledger(self, stream_id: str, domain: str) -> Iterator[LedgerEntry]:
        found = self.load(LedgerEntry, stream_id)
        return iter([each for each in found if each.domain == domain])

    def changes(self, stream_id: str, *, before: int | None, limit: int) -> list[Change]:
        found = reversed(self.load(Change, stream_id))
        return [each for each in found if before is None or each.number < before][:limit]

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

    def commit(self, batch: ChangeSet) -> None:
        self.ping()
        self._check(batch)
        for (stream_id,) in batch.list_drops(StreamRecord):
            for table in self.tables.values():
                table.pop(stream_id, None)
        for kind in RECORD_KINDS:
            for key in batch.list_drops(kind):
                self.tables[kind][key[0]].pop(key, None)
            for record in batch.list_puts(kind):
                self._put(record)
        self._delete_old(batch)

    def ping(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def close(self) -> None:
        self._closed = True

    def _put(self, record: Record) -> None:
        if isinstance(record, BucketClock):
            self._clocks[record.number] = record.served_ms
            return
        key, kept = record.key, self.tables[type(record)][record.key[0]]
        if isinstance(record, Change):
            number = 1 + max((number for _, number in kept), default=0)
            key, record = (record.stream_id, number), replace(record, number=number)
        kept[key] = record

    def _last_marks(self, record: StreamRecord) -> dict[str, Mark]:
        chains = {domain: [*self.marks(record.id, domain)] for domain in record.settings.domains}
        return {domain: chain[-1].mark for domain, chain in chains.items() if chain}

    def _check(self, batch: ChangeSet) -> None:
        """Raise `Conflict` if the batch contradicts the records, or itself."""
        self._check_names(batch)
        known = {record.id for record in batch.list_puts(StreamRecord)}
        known |= {stream_id for stream_id, kept in self.tables[StreamRecord].items() if kept}
        for kind in set(RECORD_KINDS) - {StreamRecord, BucketClock, AppendedMark}:
            for key in (record.key for record in batch.list_puts(kind)):
                if key[0] not in known:
                    raise Conflict(f"no stream has the id {key[0]!r}")
                if kind.is_appended and key in self.tables[kind][key[0]]:
                    raise Conflict(f"there is a record {key} already")
        marks = batch.list_puts(AppendedMark)
        check_marks({each.key[:2]: self._last_seq(*each.key[:2]) for each in marks}, marks)
        if missing := {each.stream_id for each in marks} - known:
            raise Conflict(f"no stream has the id {min(missing)!r}")

    def _last_seq(self, stream_id: str, domain: str) -> int:
        keys = reversed(self.tables[AppendedMark].get(stream_id, {}))
        return next((seq for _, each, seq in keys if each == domain), 0)

    def _check_names(self, batch: ChangeSet) -> None:
        names = {record.id: record.name for record in self.streams()}
        for (stream_id,) in batch.list_drops(StreamRecord):
            names.pop(stream_id, None)
        for record in batch.list_puts(StreamRecord):
            if record.name in {name for each, name in names.items() if each != record.id}:
                raise Conflict(f"another stream has the name {record.name!r}")
            names[record.id] = record.name

    def _delete_old(self, batch: ChangeSet) -> None:
        """Drop old records, except the last mark and change of each stream."""
        for (kind, stream_id), before in batch.expired.items():
            kept, (served_field,) = self.tables[kind][stream_id], kind.column_fields
            last = max(kept, default=()) if kind is Change else ()
            for key in [key for key, each in kept.items() if getattr(each, served_field) < before]:
                is_needed = kind is LedgerPart and key[:3] in self.tables[LedgerEntry][stream_id]
                if key != last and not is_needed:
                    del kept[key]
        for (stream_id, domain), through in batch.truncated.items():
            last_seq, kept = (
                self._last_seq(stream_id, domain),
                self.tables[AppendedMark][stream_id],
            )
            for seq in [key[2] for key in kept if key[1] == domain]:
                if seq <= through and seq != last_seq:
                    del kept[stream_id, domain, seq]


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
