"""What became of members, appended a batch at a time, until their own rows are written.

Each note changes the record of its writer, and of all those records only the last is ever read, by
whoever takes the stream over. So a commit appends what it has to say of a stream's members as one
*entry*: with a thousand records it takes PostgreSQL a quarter and SQLite two fifths of the time of
as many rows. Nothing of an entry is needed any more once later ones tell of the same members, as
they do of writers that go on noting; then it is dropped, the oldest first. What it alone tells is
*settled* before: written to the members' rows.

So a member is as its row says, unless an entry tells of it; then as the last of these says.

A journal may be three times as long as what is needed of it, so writers that all note at the same
pace go without their rows for ever. All journals together are bounded, as they are read again at a
takeover.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from controller.store.rows import encode
from controller.store.told import Told, decoded, in_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from controller.store.port import Batch
    from noted_time import MemberRecord

RECORDS_AN_ENTRY = 1000

LONG = 3
SHORT = 2
"""So many times what is needed of it is a journal that is cut down, and one that was."""

SPARE_BYTES = 4 * 1024 * 1024
"""So much the journals of a store may be longer."""

MOST_BYTES = 64 * 1024 * 1024
"""So long may they be at all, to be read in some 0.3 s; then the oldest third of each goes."""

SETTLED_AT_ONCE = 500
DROPPED_AT_ONCE = 200
"""After so many records, or entries, a commit leaves the rest to the next: it took some ms."""

_decode = msgspec.json.Decoder(tuple[list[str], list[str], list[msgspec.Raw]]).decode

Row = tuple[str, int, str]
"""Of an entry: its stream's id, its seq, its body."""


class Entry(NamedTuple):
    """What one commit, or a part of a large one, says of a stream: who is forgotten, then who is.

    Records are not looked into before they are asked for, since few are.

    >>> Entry.of(body(["UA"], Told.of("id-1", []))).forgotten
    ['UA']
    """

    forgotten: list[str]
    records: dict[str, msgspec.Raw]
    size: int

    @classmethod
    def of(cls, stored: str) -> Entry:
        """Return what a body says."""
        forgotten, writers, records = _decode(stored)
        return cls(forgotten, dict(zip(writers, records, strict=True)), len(stored))


def body(forgotten: Sequence[str], told: Told) -> str:
    """Return what is stored of an entry."""
    names = encode(forgotten), encode(told.writers)
    return (b"[%b,%b,[%b]]" % (*names, told.text)).decode()


class Outdated(NamedTuple):
    """The entries of a stream that go next: its first ones, from `first` to `last`.

    What is to be settled is in those from `since` on, nothing where that is `None`.
    """

    stream_id: str
    first: int
    since: int | None
    last: int


@dataclass(slots=True, eq=False)
class _Kept:
    """An entry that is there: its size and that of each record.

    It is the last to tell of at most `needed` writers.
    """

    seq: int
    size: int
    each: int
    needed: int


@dataclass(slots=True)
class _Chain:
    """The entries of one stream in their order, and for each writer the last that tells of it.

    `size` is that of all entries, `needed` of what no later one told when that was counted, in
    characters.
    """

    last_seq: int = 0
    size: int = 0
    needed: int = 0
    entries: deque[_Kept] = field(default_factory=deque)
    latest: dict[str, _Kept] = field(default_factory=dict)

    def add(self, seq: int, size: int, forgotten: Iterable[str], writers: Collection[str]) -> None:
        kept = _Kept(seq, size, size // (len(writers) or 1), len(writers))
        for writer in forgotten:
            self.latest.pop(writer, None)
        self.latest.update(dict.fromkeys(writers, kept))
        self.last_seq = seq
        self.size += size
        self.entries.append(kept)

    def settle(self, seq: int, entry: Entry) -> Iterator[MemberRecord]:
        """Yield the records that no later entry has, to be written to their rows."""
        for writer, record in entry.records.items():
            kept = self.latest.get(writer)
            if kept is not None and kept.seq == seq:
                del self.latest[writer]
                yield decoded(record)

    def drop(self, last: int) -> None:
        while self.entries and self.entries[0].seq <= last:
            self.size -= self.entries.popleft().size

    def count(self) -> None:
        """Find out of how many writers each entry is the last to tell; it looks at all of them."""
        records = Counter(self.latest.values())
        for kept in self.entries:
            kept.needed = records[kept]
        self.needed = sum(kept.each * kept.needed for kept in self.entries)


class Journal:
    """What the entries of a store's streams are, without what they say; no I/O.

    It is right as long as every batch that it was told of is committed: `clear` it where one was
    not, or where another controller may have written.
    """

    def __init__(self) -> None:
        """Begin without knowing any stream."""
        self._chains: dict[str, _Chain] = {}
        self._size = self._needed = 0
        self._long: dict[str, int] = {}

    def clear(self) -> None:
        """Know no stream any more."""
        self._chains.clear()
        self._size = self._needed = 0
        self._long.clear()

    def unknown(self, batch: Batch) -> set[str]:
        """Return the streams that the batch tells of and whose entries are not known."""
        told_of = {told.stream_id for told in batch.told}
        told_of |= dict(batch.forgotten_members).keys()
        return told_of - self._chains.keys()

    def learn(self, stream_id: str, entries: Iterable[tuple[int, Entry]]) -> None:
        """Take in which entries a stream has, by their seqs."""
        self.forget(stream_id)
        chain = _Chain()
        for seq, entry in entries:
            chain.add(seq, entry.size, entry.forgotten, entry.records)
        chain.count()
        self._chains[stream_id] = chain
        self._count(chain, 1)

    def forget(self, stream_id: str) -> None:
        """Know a stream no more, say because it is dropped."""
        chain = self._chains.pop(stream_id, None)
        if chain is not None:
            self._count(chain, -1)

    def append(self, batch: Batch) -> list[Row]:
        """Return the rows of what a batch says of the members of streams that are known."""
        rows = []
        for stream_id, group in groupby(batch.forgotten_members, key=_stream_id):
            latest = self._chains[stream_id].latest
            forgotten = [writer for _, writer in group if writer in latest]
            if forgotten:
                rows.append(self._add(forgotten, Told.of(stream_id, [])))
        rows += [self._add((), part) for part in in_parts(batch.told, RECORDS_AN_ENTRY)]
        return rows

    def _add(self, forgotten: Sequence[str], told: Told) -> Row:
        chain, stored = self._chains[told.stream_id], body(forgotten, told)
        seq = chain.last_seq + 1
        self._count(chain, -1)
        chain.add(seq, len(stored), forgotten, told.writers)
        self._count(chain, 1)
        return told.stream_id, seq, stored

    @property
    def is_overdue(self) -> bool:
        """Whether entries are to be dropped, or what is needed is to be counted anew."""
        may_be = min(MOST_BYTES, SPARE_BYTES + LONG * self._needed)
        return bool(self._long) or self._size > may_be

    def outdated(self) -> Iterator[Outdated]:
        """Yield what is to be dropped by one commit; each is to be told before the next."""
        if not self._long and self.is_overdue:
            self._long = self._goals()
        settled = dropped = 0
        while self._long and settled < SETTLED_AT_ONCE and dropped < DROPPED_AT_ONCE:
            stream_id, goal = next(iter(self._long.items()))
            chain = self._chains.get(stream_id)
            if chain is None or chain.size <= goal:
                del self._long[stream_id]
                continue
            going = _oldest(chain, goal, DROPPED_AT_ONCE - dropped, SETTLED_AT_ONCE - settled)
            since = next((kept.seq for kept in going if kept.needed), None)
            settled += sum(kept.needed for kept in going)
            dropped += len(going)
            yield Outdated(stream_id, going[0].seq, since, going[-1].seq)

    def _goals(self) -> dict[str, int]:
        """Return how long the journals of some streams are to be, none where all may stay."""
        for chain in self._chains.values():
            self._count(chain, -1)
            chain.count()
            self._count(chain, 1)
        if not self.is_overdue:
            return {}
        goals = {stream_id: SHORT * chain.needed for stream_id, chain in self._chains.items()}
        if self._size > MOST_BYTES:
            goals = {
                name: min(goal, self._chains[name].size * 2 // 3) for name, goal in goals.items()
            }
        return {name: goal for name, goal in goals.items() if self._chains[name].size > goal}

    def dropped(
        self, outdated: Outdated, entries: Iterable[tuple[int, Entry]]
    ) -> list[MemberRecord]:
        """Take in that they go; returns what of these entries is to be settled."""
        chain = self._chains[outdated.stream_id]
        self._count(chain, -1)
        records = [record for seq, entry in entries for record in chain.settle(seq, entry)]
        chain.drop(outdated.last)
        self._count(chain, 1)
        return records

    def _count(self, chain: _Chain, sign: int) -> None:
        self._size += sign * chain.size
        self._needed += sign * chain.needed


def overlaid(
    stored: Iterable[MemberRecord], entries: Iterable[tuple[int, Entry]]
) -> Iterator[MemberRecord]:
    """Yield the members by their names, from their rows in that order and the entries in theirs."""
    told: dict[str, msgspec.Raw] = {}
    for _, entry in entries:
        for writer in entry.forgotten:
            told.pop(writer, None)  # its row went with the commit of the entry
        told.update(entry.records)
    names = iter(sorted(told))
    name = next(names, None)
    for record in stored:
        while name is not None and name < record.writer:
            yield decoded(told[name])
            name = next(names, None)
        if name == record.writer:
            yield decoded(told[name])
            name = next(names, None)
        else:
            yield record
    while name is not None:
        yield decoded(told[name])
        name = next(names, None)


def _stream_id(of: tuple[str, object]) -> str:
    return of[0]


def _oldest(chain: _Chain, goal: int, most: int, settled: int) -> list[_Kept]:
    """Return the entries to drop next, the last of which may settle more than there is room for."""
    size = chain.size
    going: list[_Kept] = []
    for kept in chain.entries:
        if len(going) == most or settled <= 0 or size <= goal:
            break
        going.append(kept)
        size -= kept.size
        settled -= kept.needed
    return going
