"""The controller's interface to a database.

One test suite checks these rules for every store:

- `commit` is atomic and durable. Once it returns, the batch survives any crash of the process or
  the machine.
- After a `Conflict`, nothing of the batch was written.
- After `StoreUnavailable`, either all or nothing was written, and the caller must read again.
- After `StoreLost`, every call fails.
- Marks are appended by compare-and-set on (stream, domain, seq). `commit` raises `MarkConflict` if
  a mark does not follow the last stored mark. The first mark has seq 1.
- `commit` raises `Conflict` for an unknown stream id, for two streams with one name, and for a
  scale event that is already stored.
- Readers get exactly the values that were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import distributions
from typing import Any, Literal, Protocol

from noted_time import (
    BacklogPolicy,
    Mark,
    MarkConflict,
    MemberRecord,
    ScaleEvent,
    Seal,
    StreamSettings,
)
from noted_time.values import Absence, LateReport, ProblemKind

LateKey = tuple[str, str, str, int, int, int]
"""Stream id, domain, and the place of a report, which is its writer and hours."""


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream's identity and settings, and how far back its stored data reaches."""

    id: str
    """It is never used again, unlike the name."""
    name: str
    settings: StreamSettings
    declared_at: Mapping[str, int] = field(default_factory=dict)
    """When each domain was added to the existing stream (service time, ms)."""
    seal: Seal | None = None
    unbounded: tuple[str, ...] = ()
    """The domains whose later uppers are not bounds."""
    ledger_from: Mapping[str, int] = field(default_factory=dict)
    """A domain's ledger is complete from this time on, if entries were deleted."""
    late_from: Mapping[str, int] = field(default_factory=dict)
    """A domain's late rows are complete from this time on, if some were deleted."""
    first_lowers: Mapping[str, int] = field(default_factory=dict)
    """The lower of each domain's first mark, which may have been dropped."""
    forgotten_lowers: Mapping[str, int] = field(default_factory=dict)
    """Each domain's lower when members were last forgotten."""
    logs: tuple[str, ...] = ()
    """The ids of the logs that positions were in. The present log is the last."""


@dataclass(frozen=True, slots=True)
class AppendedMark:
    """A mark of a stream's domain. It was appended at `appended_at` (service time, ms)."""

    stream_id: str
    domain: str
    mark: Mark
    appended_at: int


@dataclass(frozen=True, slots=True)
class ReaderRecord:
    """A reader of a group, and the position that it last reported."""

    stream_id: str
    group: str
    reader: str
    online: bool
    """Whether the reader is online. For an offline reader only the position is kept."""
    position: Mapping[int, int]
    reported_at: int = 0
    """When the reader last reported (service clock)."""
    backlog: bool | None = None
    """The reader's own report of a backlog."""


@dataclass(frozen=True, slots=True)
class BacklogRecord:
    """A reader group's backlog policy, and whether it had a backlog when last checked."""

    stream_id: str
    group: str
    policy: BacklogPolicy | None = None
    backlog: bool = False
    since: int | None = None
    """When `backlog` last changed (Unix ms), or `None` before the first check."""
    caught_up: tuple[str, ...] = ()
    """The domains where the group has caught up, for the sticky rule."""


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A report of late rows in a stream's domain. There is one record for each place."""

    stream_id: str
    domain: str
    report: LateReport

    @property
    def key(self) -> LateKey:
        return self.stream_id, self.domain, *self.report.place


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A mark that advanced without writers, or learned of their return."""

    stream_id: str
    domain: str
    seq: int
    at: int
    """Wall time in Unix ms."""
    from_lower: int | None
    """The previous lower, or `None` for the first mark."""
    to_lower: int
    writers: tuple[Absence, ...]
    by: str | None = None
    """The operator who removed a writer, if any."""
    returned: tuple[str, ...] = ()
    """The writers that were missing until this mark."""


Action = Literal[
    "created",
    "settings",
    "scaled",
    "truncated",
    "removed",
    "held",
    "released",
    "backlog_policy",
    "sealed",
    "taken_over",
    "went_back",
]
"""A kind of change to a stream, a writer or a reader group.

Operators make all of them but two. "taken_over" means that another process took over a live
writer's name, and "went_back" that the database lost marks.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that an operator made to a stream."""

    stream_id: str
    at: int
    """Wall time in Unix ms."""
    action: Action
    writer: str | None = None
    was: Mapping[str, Any] | None = None
    """The old values as plain JSON."""
    became: Mapping[str, Any] | None = None
    """The new values as plain JSON."""
    by: str | None = None
    """The operator's address, or the label and id of the token."""
    comment: str | None = None
    """The reason that the operator gave."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream in a list, with the last mark of each domain and the scale events."""

    record: StreamRecord
    last_marks: Mapping[str, Mark]
    scales: Sequence[ScaleEvent]


@dataclass(slots=True)
class Transaction:
    """All writes of one transaction. They are applied in the order of the fields."""

    clocks: dict[int, int] = field(default_factory=dict)
    """The service clocks of buckets (ms)."""
    streams: list[StreamRecord] = field(default_factory=list)
    scales: list[tuple[str, int, ScaleEvent]] = field(default_factory=list)
    """Scale events, as (stream id, number, event). A stream's numbers must increase."""
    forgotten_members: list[tuple[str, str]] = field(default_factory=list)
    """Members to delete, as (stream id, writer). `members` may add them again."""
    members: list[tuple[str, MemberRecord]] = field(default_factory=list)
    """Members as (stream id, record), at most one record for each writer."""
    marks: list[AppendedMark] = field(default_factory=list)
    readers: list[ReaderRecord] = field(default_factory=list)
    """Replace the records with the same stream, group and reader."""
    backlogs: list[BacklogRecord] = field(default_factory=list)
    """Replace the records with the same stream and group."""
    late: list[LateRecord] = field(default_factory=list)
    """Replace the records with the same key."""
    ledger: list[LedgerEntry] = field(default_factory=list)
    """New entries."""
    changes: list[Change] = field(default_factory=list)
    """New changes. Each stream's changes are numbered from 1 without gaps."""
    forgotten_readers: list[tuple[str, str, str]] = field(default_factory=list)
    """Readers to delete, as (stream id, group, reader)."""
    forgotten_backlogs: list[tuple[str, str]] = field(default_factory=list)
    """Backlogs to delete, as (stream id, group)."""
    forgotten_late: list[LateKey] = field(default_factory=list)
    forgotten_ledger: list[tuple[str, int]] = field(default_factory=list)
    """(stream id, Unix ms): older ledger entries are deleted."""
    forgotten_changes: list[tuple[str, int]] = field(default_factory=list)
    """(stream id, Unix ms): older changes are deleted, except the last, whose number is needed."""
    forgotten: list[tuple[str, str, int]] = field(default_factory=list)
    """(stream id, domain, seq): marks up to this seq are deleted, except the last mark."""
    dropped: list[str] = field(default_factory=list)
    """Ids of streams to delete with all their data. Their names are free for `streams`."""

    def without_dropped(self) -> Transaction:
        """Return the batch without writes to the streams that it drops.

        Dropping streams first gives the same result, because ids are never used again. It also
        frees a stream's name for a stream that the batch creates.
        """
        dropped = set(self.dropped)
        if not dropped:
            return self
        kept: dict[str, Any] = {
            name: [each for each in getattr(self, name) if find_stream_id(each) not in dropped]
            for name in STREAM_PARTS
        }
        return replace(self, **kept)

    @property
    def records(self) -> int:
        return len(self.members)


STREAM_PARTS = tuple(
    each.name for each in fields(Transaction) if each.name not in {"clocks", "dropped"}
)
"""The fields of a transaction whose entries belong to streams."""


def find_stream_id(written: Any) -> str:  # noqa: ANN401 - an entry of a transaction
    """Return the id of the stream that an entry of a transaction belongs to."""
    if isinstance(written, StreamRecord):
        return written.id
    stream_id: str = written[0] if isinstance(written, tuple) else written.stream_id
    return stream_id


LEASE_MS = 3000
"""How long a controller may be silent before other controllers take its buckets (ms)."""


@dataclass(frozen=True, slots=True)
class Leases:
    """The owners of the buckets that streams are hashed to by name.

    `mine` are this store's buckets, and `others` has the URLs of the other owners. `replicas` is
    the number of live controllers, which includes this one until it leaves.
    """

    buckets: int
    mine: frozenset[int]
    others: Mapping[int, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def free(self) -> frozenset[int]:
        return frozenset(range(self.buckets)) - self.mine - self.others.keys()


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """A controller of a database: its URL, its version, and the revision of its tables.

    `version` is `None` if noted-time is not installed. `since` is when the controller connected
    (Unix ms), or `None` for a database file, which has only one controller.
    """

    url: str
    version: str | None
    revision: str
    since: int | None


def find_running_version() -> str | None:
    """Return the version of this code, or `None` if it is not installed."""
    return next((each.version for each in distributions(name="noted-time")), None)


class Reading(Protocol):
    """Reads committed data of any stream. Its methods may be called from several threads."""

    def streams(self) -> list[StreamRecord]:
        """Return all streams, sorted by name."""

    def names(self) -> list[str]:
        """Return the names of all streams, sorted."""

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Return summaries of the given streams that exist, sorted by name."""

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream, oldest first."""

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream, sorted by name."""

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        """Yield the stored marks of a stream's domain, sorted by seq."""

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream, sorted by name."""

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        """Return the backlog records of a stream's groups, sorted by name."""

    def late(self, stream_id: str) -> list[LateRecord]:
        """Return the late rows of a stream, sorted by key."""

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        """Return at most `limit` ledger entries after the seq `after`, sorted by seq.

        If `newest_first`, return entries before `after` (with 0 all entries), newest first.
        """

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return at most `limit` changes below the number `before`, with numbers, newest first."""

    def replicas_secret(self) -> bytes:
        """Return the secret that authenticates the controllers to each other.

        It is empty if an operator deleted it. Controllers then refuse all forwarded notes.
        """

    def replicas(self) -> list[ReplicaRecord]:
        """Return the connected controllers by URL. It is empty if the database is not shared."""

    def risk(self) -> str | None:
        """Return why a power cut may lose acknowledged notes, and the remedy, or `None`."""

    def damage(self) -> str | None:
        """Check the whole database. Return its damage and the remedy, or `None`."""


class Store(Reading, Protocol):
    """The database of a controller. Calls block, and must be made one at a time.

    If `local` is false, several controllers share the buckets by leases. A batch must only write to
    streams in the store's own buckets.

    If the store loses a lease, `commit` raises `StoreUnavailable` until `heartbeat` starts a new
    session, which has no buckets. The caller must then read everything again.
    """

    @property
    def local(self) -> bool:
        """Whether only this process writes to the database."""

    @property
    def reading(self) -> Reading:
        """Reads the database in other threads, including streams of other controllers."""

    def register(self, url: str) -> None:
        """Set this controller's URL for the other controllers, before the first `heartbeat`."""

    def heartbeat(self) -> Leases:
        """Renew the leases, and return the owners of all buckets."""

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire the buckets that are free, and return them."""

    def release(self, buckets: Iterable[int]) -> None:
        """Release buckets, which must be this store's."""

    def leave(self) -> None:
        """Release all buckets and stop counting as live. `heartbeat` still returns the owners."""

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket at its last commit, initially 0."""

    def commit(self, batch: Transaction) -> None:
        """Write the batch in one transaction.

        Raises `MarkConflict` if another owner appended first, any other `Conflict` if the batch
        contradicts the stored data, and `StoreUnavailable` if the database does not answer.
        """

    def ping(self) -> None:
        """Raise `StoreUnavailable` if the database would not accept a commit.

        Reasons are that it does not answer, is read-only, or has the tables of another version.
        """

    def close(self) -> None:
        """Close the connections."""


def check_marks(last: Mapping[tuple[str, str], int], marks: Iterable[AppendedMark]) -> None:
    """Raise `MarkConflict` at the first mark that does not follow the last one.

    `last` has the seq of each chain's last stored mark, with 0 or no entry if there is none.
    """
    seqs = dict(last)
    for appended in marks:
        chain, seq = (appended.stream_id, appended.domain), appended.mark.seq
        if seq != seqs.get(chain, 0) + 1:
            raise MarkConflict(*chain, seq)
        seqs[chain] = seq


class StoreUnavailable(Exception):
    """The database did not accept the call. For example, the disk is full or the file is locked."""

    kind = ProblemKind("unavailable", 503)


class StoreDamaged(StoreUnavailable):
    """The stored data is not the data that was written."""

    def __init__(self, what: str, why: object) -> None:
        super().__init__(f"{what} is damaged: {why}: restore the database from a backup")


class StoreLost(StoreUnavailable):
    """Committed data will be lost with this process, which must be restarted."""
