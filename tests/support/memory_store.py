"""A store and tokens in memory, which keep the contracts of those in a database."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.store.port import StoreUnavailable, StreamSummary, check_marks
from controller.store.sqlite import SingleNodeLeases
from controller.store.tokens import Tokens
from noted_time import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from controller.store.port import (
        AlignmentRecord,
        AppendedMark,
        BacklogRecord,
        Batch,
        Change,
        LedgerEntry,
        ReaderRecord,
        StreamRecord,
    )
    from controller.store.tokens import TokenRecord
    from noted_time import Mark, MemberRecord, ScaleEvent


class MemoryStore(SingleNodeLeases):
    """A `Store` of dicts, durable as long as the object; a peer of the others in all else."""

    def __init__(self) -> None:
        self._clocks = {0: 0}
        self._streams: dict[str, StreamRecord] = {}
        self._scales: dict[str, dict[int, ScaleEvent]] = {}
        self._members: dict[str, dict[str, MemberRecord]] = {}
        self._marks: dict[tuple[str, str], dict[int, AppendedMark]] = {}
        self._readers: dict[str, dict[tuple[str, str], ReaderRecord]] = {}
        self._backlogs: dict[str, dict[str, BacklogRecord]] = {}
        self._ledger: dict[tuple[str, str], list[LedgerEntry]] = {}
        self._changes: dict[str, dict[int, Change]] = {}
        self._alignments: dict[str, AlignmentRecord] = {}
        self._closed = False

    def clocks(self) -> dict[int, int]:
        """Return the service clock of the bucket as of the last commit, 0 at first."""
        self.ping()
        return dict(self._clocks)

    def streams(self) -> list[StreamRecord]:
        """Return all streams in the order of their names."""
        self.ping()
        return sorted(self._streams.values(), key=lambda record: record.name)

    def names(self) -> list[str]:
        """Return the names of all streams in order."""
        return [record.name for record in self.streams()]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Return summaries of those of these streams that exist, in the order of their names."""
        return [
            StreamSummary(record, self._last_marks(record), self.scales(record.id))
            for record in self.streams()
            if record.name in names
        ]

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream in the order of their seq."""
        self.ping()
        return [event for _, event in sorted(self._scales.get(stream_id, {}).items())]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""
        self.ping()
        members = self._members.get(stream_id, {})
        return iter([members[writer] for writer in sorted(members)])

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        """Yield the marks of (stream, domain) in the order of their seq."""
        self.ping()
        return iter(list(self._marks.get((stream_id, domain), {}).values()))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream in the order of their names."""
        self.ping()
        return [reader for _, reader in sorted(self._readers.get(stream_id, {}).items())]

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        """Return what is kept of the backlogs of a stream's groups in the order of their names."""
        self.ping()
        return [record for _, record in sorted(self._backlogs.get(stream_id, {}).items())]

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        """Return at most `limit` entries of (stream, domain) after a seq, in that order of seq."""
        self.ping()
        entries = self._ledger.get((stream_id, domain), [])
        ordered = sorted(entries, key=lambda entry: entry.seq, reverse=newest_first)
        if newest_first:
            return [entry for entry in ordered if not after or entry.seq < after][:limit]
        return [entry for entry in ordered if entry.seq > after][:limit]

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return at most `limit` changes below a number, each with its own, the newest first."""
        self.ping()
        kept = reversed(self._changes.get(stream_id, {}).items())
        return [each for each in kept if before is None or each[0] < before][:limit]

    def alignments(self) -> list[AlignmentRecord]:
        """Return all alignments in the order of their names."""
        self.ping()
        return [self._alignments[name] for name in sorted(self._alignments)]

    def commit(self, batch: Batch) -> None:
        """Take the batch in, all or nothing; raises `Conflict` and `StoreUnavailable`."""
        self.ping()
        batch = batch.without_dropped()
        streams = self._streams_after(batch)
        _check_streams(batch, streams.keys())
        scales = self._scales_after(batch)
        check_marks(self._last_seqs(batch), batch.marks)
        self._check_ledger(batch)
        for stream_id in batch.dropped:
            self._drop(stream_id)
        self._streams = streams
        self._clocks |= batch.clocks
        self._scales.update(scales)
        self._take(batch)
        for name in batch.forgotten_alignments:
            self._alignments.pop(name, None)
        self._alignments |= {record.name: record for record in batch.alignments}

    def ping(self) -> None:
        """Raise `StoreUnavailable` when the store is closed."""
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def close(self) -> None:
        """Answer no call any more."""
        self._closed = True

    def _last_marks(self, record: StreamRecord) -> dict[str, Mark]:
        chains = {
            domain: self._marks.get((record.id, domain), {}) for domain in record.settings.domains
        }
        lasts = {domain: [*chain.values()][-1].mark for domain, chain in chains.items() if chain}
        return {domain: record.corrected(domain, mark) for domain, mark in lasts.items()}

    def _last_seqs(self, batch: Batch) -> dict[tuple[str, str], int]:
        chains = {(appended.stream_id, appended.domain) for appended in batch.marks}
        return {chain: next(reversed(self._marks[chain])) for chain in chains & self._marks.keys()}

    def _streams_after(self, batch: Batch) -> dict[str, StreamRecord]:
        if not batch.streams and not batch.dropped:
            return self._streams
        gone = set(batch.dropped)
        streams = {domain: record for domain, record in self._streams.items() if domain not in gone}
        owners = {record.name: record.id for record in streams.values()}
        for record in batch.streams:
            if owners.get(record.name, record.id) != record.id:
                raise Conflict(f"another stream is named {record.name!r}")
            if record.id in streams:
                del owners[streams[record.id].name]
            owners[record.name] = record.id
            streams[record.id] = record
        return streams

    def _scales_after(self, batch: Batch) -> dict[str, dict[int, ScaleEvent]]:
        scales: dict[str, dict[int, ScaleEvent]] = {}
        for stream_id, seq, event in batch.scales:
            after = scales.setdefault(stream_id, dict(self._scales.get(stream_id, {})))
            if seq in after:
                raise Conflict(f"stream {stream_id!r} has a scale event {seq} already")
            after[seq] = event
        return scales

    def _check_ledger(self, batch: Batch) -> None:
        seen = {(*chain, entry.seq) for chain, entries in self._ledger.items() for entry in entries}
        for entry in batch.ledger:
            key = (entry.stream_id, entry.domain, entry.seq)
            if key in seen:
                raise Conflict(f"there is an entry {key} already")
            seen.add(key)

    def _drop(self, stream_id: str) -> None:
        for table in (self._scales, self._members, self._readers, self._backlogs, self._changes):
            table.pop(stream_id, None)
        for chain in [chain for chain in self._marks if chain[0] == stream_id]:
            del self._marks[chain]
        for chain in [chain for chain in self._ledger if chain[0] == stream_id]:
            del self._ledger[chain]

    def _take(self, batch: Batch) -> None:
        for stream_id, writer in batch.forgotten_members:
            self._members.get(stream_id, {}).pop(writer, None)
        for stream_id, member in batch.members:
            self._members.setdefault(stream_id, {})[member.writer] = _copied(member)
        for appended in batch.marks:
            chain = (appended.stream_id, appended.domain)
            self._marks.setdefault(chain, {})[appended.mark.seq] = appended
        for stream_id, group_name, name in batch.forgotten_readers:
            self._readers.get(stream_id, {}).pop((group_name, name), None)
        for reader in batch.readers:
            kept_reader = replace(reader, position=dict(reader.position))
            group = self._readers.setdefault(reader.stream_id, {})
            group[reader.group, reader.reader] = kept_reader
        for stream_id, group_name in batch.forgotten_backlogs:
            self._backlogs.get(stream_id, {}).pop(group_name, None)
        for record in batch.backlogs:
            self._backlogs.setdefault(record.stream_id, {})[record.group] = record
        self._take_records(batch)
        for stream_id, domain, seq in batch.forgotten:
            self._forget(stream_id, domain, seq)

    def _take_records(self, batch: Batch) -> None:
        for entry in batch.ledger:
            self._ledger.setdefault((entry.stream_id, entry.domain), []).append(entry)
        for change in batch.changes:
            changes = self._changes.setdefault(change.stream_id, {})
            changes[max(changes, default=0) + 1] = change
        for stream_id, before in batch.forgotten_ledger:
            for chain in [chain for chain in self._ledger if chain[0] == stream_id]:
                self._ledger[chain] = [each for each in self._ledger[chain] if each.at >= before]
        for stream_id, before in batch.forgotten_changes:
            changes = self._changes.get(stream_id, {})
            for number in [n for n in list(changes)[:-1] if changes[n].at < before]:
                del changes[number]

    def _forget(self, stream_id: str, domain: str, seq: int) -> None:
        marks = self._marks.get((stream_id, domain), {})
        for each in [each for each in list(marks)[:-1] if each <= seq]:
            del marks[each]


class MemoryTokens(Tokens):
    """A `Tokens` that is forgotten with its process."""

    def __init__(self) -> None:
        self._records: dict[str, TokenRecord] = {}

    def counts(self) -> tuple[int, int]:
        """See `Tokens`."""
        revoked = sum(each.revoked_at is not None for each in self._records.values())
        return len(self._records), revoked

    def all(self) -> list[TokenRecord]:
        """See `Tokens`."""
        return sorted(self._records.values(), key=lambda record: (record.created_at, record.id))

    def add(self, record: TokenRecord) -> None:
        """See `Tokens`."""
        if record.id in self._records:
            raise Conflict(f"there is a token {record.id} already")
        self._records[record.id] = record

    def revoke(self, token_id: str, at_ms: int) -> bool:
        """See `Tokens`."""
        found = self._records.get(token_id)
        if found is None or found.revoked_at is not None:
            return False
        self._records[token_id] = replace(found, revoked_at=at_ms)
        return True

    def close(self) -> None:
        """See `Tokens`."""


def _copied(member: MemberRecord) -> MemberRecord:
    return member._replace(
        position=dict(member.position),
        times=dict(member.times),
        max_times=dict(member.max_times),
        exclusions=dict(member.exclusions),
    )


def _check_streams(batch: Batch, living: AbstractSet[str]) -> None:
    written = {stream_id for stream_id, _ in batch.members}
    written.update(stream_id for stream_id, _, _ in batch.scales)
    written.update(appended.stream_id for appended in batch.marks)
    written.update(reader.stream_id for reader in batch.readers)
    written.update(record.stream_id for record in batch.backlogs)
    written.update(entry.stream_id for entry in batch.ledger)
    written.update(change.stream_id for change in batch.changes)
    missing = written - living
    if missing:
        raise Conflict(f"there is no stream with the id {min(missing)!r}")
