"""A store and tokens in memory, with the contracts of a database."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
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
        records: list[StreamRecord] = []
        for streams in self.tables[StreamRecord].values():
            records += streams.values()
        return sorted(records, key=attrgetter("name"))

    def names(self) -> list[str]:
        return [record.name for record in self.streams()]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        summaries = []
        for record in self.streams():
            if record.name in names:
                scale_events = [scale.event for scale in self.load(StoredScale, record.id)]
                summaries.append(StreamSummary(record, self._last_marks(record), scale_events))
        return summaries

    def load(self, kind: type[R], stream_id: str) -> list[R]:
        self.ping()
        records = self.tables[kind].get(stream_id, {})
        return [records[key] for key in sorted(records)]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        return iter([stored_member.member for stored_member in self.load(StoredMember, stream_id)])

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        marks = self.load(AppendedMark, stream_id)
        return iter([appended_mark for appended_mark in marks if appended_mark.domain == domain])

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        entries = [entry for entry in self.load(LedgerEntry, stream_id) if entry.domain == domain]
        if newest_first:
            entries.reverse()
            return [entry for entry in entries if not after or entry.answer.seq < after][:limit]
        return [entry for entry in entries if entry.answer.seq > after][:limit]

    def ledger_parts(self, stream_id: str, domain: str, seq: int) -> Iterator[LedgerPart]:
        parts = self.load(LedgerPart, stream_id)
        return iter([part for part in parts if (part.domain, part.seq) == (domain, seq)])

    def whole_ledger(self, stream_id: str, domain: str) -> Iterator[LedgerEntry]:
        entries = self.load(LedgerEntry, stream_id)
        return iter([entry for entry in entries if entry.domain == domain])

    def changes(self, stream_id: str, *, before: int | None, limit: int) -> list[Change]:
        changes = reversed(self.load(Change, stream_id))
        return [change for change in changes if before is None or change.number < before][:limit]

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
        key = record.key
        table = self.tables[type(record)][record.key[0]]
        if isinstance(record, Change):
            number = 1 + max((number for _, number in table), default=0)
            key = (record.stream_id, number)
            record = replace(record, number=number)
        table[key] = record

    def _last_marks(self, record: StreamRecord) -> dict[str, Mark]:
        chains = {domain: [*self.marks(record.id, domain)] for domain in record.settings.domains}
        return {domain: chain[-1].mark for domain, chain in chains.items() if chain}

    def _check(self, batch: ChangeSet) -> None:
        """Raise `Conflict` if the batch contradicts the records, or itself."""
        self._check_names(batch)
        known_ids = {record.id for record in batch.list_puts(StreamRecord)}
        for stream_id, records in self.tables[StreamRecord].items():
            if records:
                known_ids.add(stream_id)
        for kind in set(RECORD_KINDS) - {StreamRecord, BucketClock, AppendedMark}:
            for record in batch.list_puts(kind):
                key = record.key
                if key[0] not in known_ids:
                    raise Conflict(f"no stream has the id {key[0]!r}")
                if kind.is_appended and key in self.tables[kind][key[0]]:
                    raise Conflict(f"there is a record {key} already")
        marks = batch.list_puts(AppendedMark)
        check_marks(
            {
                appended_mark.key[:2]: self._last_seq(*appended_mark.key[:2])
                for appended_mark in marks
            },
            marks,
        )
        if missing := {appended_mark.stream_id for appended_mark in marks} - known_ids:
            raise Conflict(f"no stream has the id {min(missing)!r}")

    def _last_seq(self, stream_id: str, domain: str) -> int:
        keys = reversed(self.tables[AppendedMark].get(stream_id, {}))
        return next((seq for _, other_domain, seq in keys if other_domain == domain), 0)

    def _check_names(self, batch: ChangeSet) -> None:
        names = {record.id: record.name for record in self.streams()}
        for (stream_id,) in batch.list_drops(StreamRecord):
            names.pop(stream_id, None)
        for record in batch.list_puts(StreamRecord):
            if record.name in {name for stream_id, name in names.items() if stream_id != record.id}:
                raise Conflict(f"another stream has the name {record.name!r}")
            names[record.id] = record.name

    def _delete_old(self, batch: ChangeSet) -> None:
        """Drop old records, except the last mark and change of each stream."""
        for (kind, stream_id), before in batch.expired.items():
            table = self.tables[kind][stream_id]
            (served_field,) = kind.column_fields
            last = max(table, default=()) if kind is Change else ()
            for key in [
                key for key, record in table.items() if getattr(record, served_field) < before
            ]:
                is_needed = kind is LedgerPart and key[:3] in self.tables[LedgerEntry][stream_id]
                if key != last and not is_needed:
                    del table[key]
        for (stream_id, domain), through in batch.truncated.items():
            last_seq = self._last_seq(stream_id, domain)
            table = self.tables[AppendedMark][stream_id]
            for seq in [key[2] for key in table if key[1] == domain]:
                if seq <= through and seq != last_seq:
                    del table[stream_id, domain, seq]


class MemoryTokens(Tokens):
    """A `Tokens` in memory."""

    def __init__(self) -> None:
        self._records: dict[str, TokenRecord] = {}

    def counts(self) -> tuple[int, int]:
        revoked_count = sum(record.revoked_at is not None for record in self._records.values())
        return len(self._records), revoked_count

    def all(self) -> list[TokenRecord]:
        return sorted(self._records.values(), key=attrgetter("created_at", "id"))

    def add(self, record: TokenRecord) -> None:
        if record.id in self._records:
            raise Conflict(f"there is a token {record.id} already")
        self._records[record.id] = record

    def revoke(self, token_id: str, at_ms: int) -> bool:
        record = self._records.get(token_id)
        if record is None or record.revoked_at is not None:
            return False
        self._records[token_id] = replace(record, revoked_at=at_ms)
        return True

    def close(self) -> None:
        """See `Tokens`."""
