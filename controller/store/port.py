"""What the controller asks of a database, whichever it is.

The law every store obeys, checked by one contract suite:

* `commit` is atomic and durable: when it returns, all of the batch survives any crash of the
  process or the machine; when it raises, nothing of it was done.
* Marks are appended by compare-and-set on (stream, key, seq): a batch with a mark whose
  predecessor is not the last one there (the first has seq 1) raises `MarkConflict`.
* What is not there is not written to: a batch that names a stream id nobody made, that puts two
  living streams under one name, or that brings a scale event twice raises `Conflict`.
* `load` gives back exactly what was committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence

    from controller.store.notices import Notice
    from noted_time import Mark, MemberRecord, ScaleEvent, StreamSettings


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream's identity and settings; `id` is unique for ever, `name` among the living.

    `declared_at` has the service time in ms at which a key was added to a stream that was there.
    """

    id: str
    name: str
    settings: StreamSettings
    declared_at: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AppendedMark:
    """A mark of (stream, key), and the service time in ms at which it was appended."""

    stream_id: str
    key: str
    mark: Mark
    appended_at: int


@dataclass(frozen=True, slots=True)
class ReaderRecord:
    """One reader of a group and the segments it was the last to report: segment → offset.

    `online` is false once it went offline and only its segments are remembered.
    """

    stream_id: str
    group: str
    reader: str
    online: bool
    position: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Glance:
    """What lists show of a stream: the last mark of each key that has one, the scale events."""

    record: StreamRecord
    last_marks: Sequence[AppendedMark]
    scales: Sequence[ScaleEvent]


@dataclass(slots=True)
class Batch:
    """Everything that one transaction writes; lists, because the hot path fills them.

    Applied in the order of the fields. `scales` gives each event of a stream its number, which
    only has to rise. `forgotten_members` removes each (stream, writer) that is there, which may
    come back in the same batch. `members` has (stream, record), at most one for each writer.
    `readers` replaces the record of that (stream, group, reader). `forgotten` drops the marks of
    (stream, key) up to and with that seq, but never the last one, which the next is compared with.
    `dropped` removes streams with all they have, also what this batch writes to them, and frees
    their names for streams that it makes. `clocks` has the service clock of buckets, in ms.
    """

    clocks: dict[int, int] = field(default_factory=dict)
    streams: list[StreamRecord] = field(default_factory=list)
    scales: list[tuple[str, int, ScaleEvent]] = field(default_factory=list)
    forgotten_members: list[tuple[str, str]] = field(default_factory=list)
    members: list[tuple[str, MemberRecord]] = field(default_factory=list)
    marks: list[AppendedMark] = field(default_factory=list)
    readers: list[ReaderRecord] = field(default_factory=list)
    forgotten: list[tuple[str, str, int]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records of members it writes."""
        return len(self.members)


@dataclass(frozen=True, slots=True)
class Leases:
    """Who has which of the buckets, into which streams fall by their names.

    `mine` are those of the store that was asked, `others` says where the controller that has a
    bucket is called, the rest are free. `replicas` is how many controllers live, with this one
    until it leaves.
    """

    buckets: int
    mine: frozenset[int]
    others: Mapping[int, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def free(self) -> frozenset[int]:
        """The buckets that nobody has."""
        return frozenset(range(self.buckets)) - self.mine - self.others.keys()


class Reading(Protocol):
    """What anybody may read of a database at any time: what is committed in it."""

    def streams(self) -> list[StreamRecord]:
        """Return all streams in the order of their names."""

    def stream(self, name: str) -> StreamRecord | None:
        """Return the stream of that name, `None` where there is none."""

    def names(self) -> list[str]:
        """Return the names of all streams in order."""

    def glances(self, names: Sequence[str]) -> list[Glance]:
        """Return what lists show of those of these streams that are there, in the names' order."""

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream in the order in which they happened."""

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""

    def marks(self, stream_id: str, key: str, after: int = 0) -> Iterator[AppendedMark]:
        """Yield the marks that are kept of (stream, key) after a seq, in the order of their seq."""

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream."""


class Store(Reading, Protocol):
    """A database behind the controller; every call blocks, and one is made at a time.

    `local` says that the database is this process's own: a commit may be quick enough to be waited
    for in the event loop, and nobody else ever writes. Where it is not, controllers share the
    buckets by leases: a store commits to streams of its own buckets only, which its caller sees to,
    and can commit nothing once it lost one. Then `commit` raises `StoreUnavailable` until `look`
    has begun anew, with no buckets, and what the caller remembers is void.
    """

    @property
    def local(self) -> bool:
        """Whether the database is this process's own."""

    @property
    def reading(self) -> Reading:
        """What other threads may read by, also of streams that are another controller's."""

    def listen(self) -> AsyncGenerator[Notice]:
        """Yield what other controllers say is to be read; ends at once where there are none."""

    def enter(self, url: str) -> None:
        """Say where other controllers find this one; to be called before the first `look`."""

    def look(self) -> Leases:
        """Return who has which bucket, and show that this controller lives."""

    def take(self, buckets: Iterable[int]) -> frozenset[int]:
        """Take those of the buckets that nobody has; returns which."""

    def give(self, buckets: Iterable[int]) -> None:
        """Let others take the buckets, all of them this store's own."""

    def leave(self) -> None:
        """Let others take all buckets, and count as living no more; `look` goes on telling."""

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket as of the last commit of it, 0 at first."""

    def commit(self, batch: Batch) -> None:
        """Write the batch in one transaction.

        Raises `MarkConflict` when another owner appended first, another `Conflict` when the batch
        contradicts what is stored, `StoreUnavailable` when the database does not answer; nothing
        was written then.
        """

    def ping(self) -> None:
        """Raise `StoreUnavailable` where the database does not answer."""

    def close(self) -> None:
        """Give back what the store holds open."""


class StoreUnavailable(Exception):
    """The database did not take the batch: the disk is full, the file is locked or gone."""
