"""The controller's interface to a database.

One test suite checks these rules for every store:

- `commit` is atomic, and once it returns, the batch survives any crash of the machine.
- After a `Conflict`, nothing of the batch was written.
- After `StoreUnavailable`, either all or nothing was written, and the caller must read again.
- After `StoreLost`, every call fails.
- Marks are appended by compare-and-set on (stream, domain, seq), from seq 1. `commit` raises
  `MarkConflict` if a mark does not follow the last stored mark.
- `commit` raises `Conflict` for an unknown stream id, for two streams with one name, and for a
  stored scale event.
- Readers get exactly the values that were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import distributions
from typing import Any, Protocol

from noted_time import (
    BacklogPolicy,
    Mark,
    MarkConflict,
    MemberRecord,
    ScaleEvent,
    Seal,
    StreamSettings,
)
from noted_time.answers import Action, EntryAnswer, Replica
from noted_time.values import LateReport, ProblemKind

LateKey = tuple[str, str, str, int, int, int]  # stream id, domain, writer, hours of a report


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream's identity and settings, and how far back its stored data reaches.

    - `id` is never used again, unlike the name.
    - `declared_at` is when domains were added to the existing stream (service time, ms).
    - `unbounded` are the domains whose later uppers are not bounds.
    - `ledger_from` and `late_from`: records are complete from this time on.
    - `late_seen_from`: reports of late rows that were seen from then on are kept (Unix ms).
    - `first_lowers` are of the first marks, which may have been dropped.
    - `forgotten_lowers` are the lowers when members were last forgotten.
    - `logs` are the ids of the logs that positions were in, the current one last.
    """

    id: str
    name: str
    settings: StreamSettings
    declared_at: Mapping[str, int] = field(default_factory=dict)
    seal: Seal | None = None
    unbounded: tuple[str, ...] = ()
    ledger_from: Mapping[str, int] = field(default_factory=dict)
    late_from: Mapping[str, int] = field(default_factory=dict)
    late_seen_from: Mapping[str, int] = field(default_factory=dict)
    first_lowers: Mapping[str, int] = field(default_factory=dict)
    forgotten_lowers: Mapping[str, int] = field(default_factory=dict)
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AppendedMark:
    """A mark that was appended at `appended_at` (service time, ms).

    The watermark waited for `last_writer` last, if that is known.
    """

    stream_id: str
    domain: str
    mark: Mark
    appended_at: int
    last_writer: str | None = None


@dataclass(frozen=True, slots=True)
class ReaderRecord:
    """A reader of a group; of an offline reader only the position is kept.

    `reported_at` is on the service clock, and `backlog` the reader's own report.
    """

    stream_id: str
    group: str
    reader: str
    online: bool
    position: Mapping[int, int]
    reported_at: int = 0
    backlog: bool | None = None


@dataclass(frozen=True, slots=True)
class BacklogRecord:
    """A reader group's backlog policy, and whether it had a backlog when last checked.

    `since` is when `backlog` last changed (Unix ms). `caught_up` are domains, for the sticky rule.
    """

    stream_id: str
    group: str
    policy: BacklogPolicy | None = None
    backlog: bool = False
    since: int | None = None
    caught_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A report of late rows in a stream's domain, one for each place."""

    stream_id: str
    domain: str
    report: LateReport

    @property
    def key(self) -> LateKey:
        return self.stream_id, self.domain, *self.report.place


class LedgerEntry(EntryAnswer, frozen=True, kw_only=True):
    """A mark that advanced without writers, or learned of their return.

    It was appended at `served_at` (service time, ms).
    """

    stream_id: str
    domain: str
    served_at: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a stream by an operator, `at` Unix ms and `served_at` on the service clock.

    `was` and `became` are JSON, `by` the operator's address or a token's label and id.
    """

    stream_id: str
    at: int
    served_at: int
    action: Action
    writer: str | None = None
    was: Mapping[str, Any] | None = None
    became: Mapping[str, Any] | None = None
    by: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream in a list."""

    record: StreamRecord
    last_marks: Mapping[str, Mark]
    scales: Sequence[ScaleEvent]


@dataclass(slots=True)
class Transaction:
    """All writes of one transaction, in the order of the fields.

    Records replace those with the same key; tuples begin with the stream's id.

    - `scales` are numbered. A stream's numbers must increase.
    - `members` has at most one record for each writer. It may add forgotten members again.
    - `changes` are numbered from 1 within a stream, without gaps.
    - `forgotten_ledger` and `forgotten_changes` delete older records than a service time (ms),
      except the last change, whose number is needed.
    - `forgotten` deletes the marks of a domain up to a seq, except the last mark.
    - `dropped` streams are deleted with all their data. Their names are free for `streams`.
    """

    clocks: dict[int, int] = field(default_factory=dict)
    streams: list[StreamRecord] = field(default_factory=list)
    scales: list[tuple[str, int, ScaleEvent]] = field(default_factory=list)
    forgotten_members: list[tuple[str, str]] = field(default_factory=list)
    members: list[tuple[str, MemberRecord]] = field(default_factory=list)
    marks: list[AppendedMark] = field(default_factory=list)
    readers: list[ReaderRecord] = field(default_factory=list)
    backlogs: list[BacklogRecord] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)
    ledger: list[LedgerEntry] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    forgotten_readers: list[tuple[str, str, str]] = field(default_factory=list)
    forgotten_backlogs: list[tuple[str, str]] = field(default_factory=list)
    forgotten_late: list[LateKey] = field(default_factory=list)
    forgotten_ledger: list[tuple[str, int]] = field(default_factory=list)
    forgotten_changes: list[tuple[str, int]] = field(default_factory=list)
    forgotten: list[tuple[str, str, int]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def without_dropped(self) -> Transaction:
        """Drop streams first, which is the same because ids are never used again."""
        dropped = set(self.dropped)
        if not dropped:
            return self
        fields: dict[str, Any] = {
            name: [each for each in getattr(self, name) if find_stream_id(each) not in dropped]
            for name in STREAM_PARTS
        }
        return replace(self, **fields)


STREAM_PARTS = tuple(
    each.name for each in fields(Transaction) if each.name not in {"clocks", "dropped"}
)


def find_stream_id(written: Any) -> str:  # noqa: ANN401 - an entry of a transaction
    if isinstance(written, StreamRecord):
        return written.id
    stream_id: str = written[0] if isinstance(written, tuple) else written.stream_id
    return stream_id


LEASE_MS = 3000  # a longer silence lets others take a controller's buckets


@dataclass(frozen=True, slots=True)
class Leases:
    """The owners of the buckets that streams are hashed to by name.

    `others` has the URLs of the other owners. `replicas` counts the live controllers, including
    this one until it leaves.
    """

    buckets: int = 1
    mine: frozenset[int] = frozenset()
    others: Mapping[int, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def free(self) -> frozenset[int]:
        return frozenset(range(self.buckets)) - self.mine - self.others.keys()


def find_running_version() -> str | None:
    return next((each.version for each in distributions(name="noted-time")), None)


class Reading(Protocol):
    """Reads committed data of any stream, in any thread. Results are sorted by key."""

    def streams(self) -> list[StreamRecord]: ...

    def names(self) -> list[str]: ...

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]: ...

    def scales(self, stream_id: str) -> list[ScaleEvent]: ...

    def members(self, stream_id: str) -> Iterator[MemberRecord]: ...

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]: ...

    def readers(self, stream_id: str) -> list[ReaderRecord]: ...

    def backlogs(self, stream_id: str) -> list[BacklogRecord]: ...

    def late(self, stream_id: str) -> list[LateRecord]: ...

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        """Return entries after the seq `after`, or with `newest_first` before it (0: all)."""

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return changes below the number `before`, newest first."""

    def replicas_secret(self) -> bytes:
        """Return the secret that authenticates the controllers to each other.

        If an operator deleted it, it is empty, and controllers refuse forwarded notes.
        """

    def replicas(self) -> list[Replica]:
        """Return none if the database is not shared."""

    def risk(self) -> str | None:
        """Return why a power cut may lose acknowledged notes, and the remedy."""

    def damage(self) -> str | None:
        """Check the whole database, and return its damage and the remedy."""


class Store(Reading, Protocol):
    """The database of a controller, called one call at a time.

    Unless `local`, controllers share the buckets by leases, and each writes only to its own. After
    a lost lease, `commit` raises `StoreUnavailable` until `heartbeat` starts a new session without
    buckets. Everything must then be read again.
    """

    @property
    def local(self) -> bool: ...

    @property
    def reading(self) -> Reading:
        """Reads in other threads, including streams of other controllers."""

    def register(self, url: str) -> None:
        """Set this controller's URL for others, before the first `heartbeat`."""

    def heartbeat(self) -> Leases:
        """Renew the leases."""

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]: ...

    def release(self, buckets: Iterable[int]) -> None: ...

    def leave(self) -> None:
        """Release all buckets and stop counting as live; `heartbeat` still returns the owners."""

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket at its last commit, initially 0."""

    def commit(self, batch: Transaction) -> None:
        """Write the batch in one transaction.

        Raises `MarkConflict` if another owner appended first, another `Conflict` if the batch
        contradicts stored data, and `StoreUnavailable`.
        """

    def ping(self) -> None:
        """Raise `StoreUnavailable` if the database would not accept a commit."""

    def close(self) -> None: ...


def check_marks(last: Mapping[tuple[str, str], int], marks: Iterable[AppendedMark]) -> None:
    """Raise `MarkConflict` at the first mark that does not follow the last one."""
    seqs = dict(last)
    for appended in marks:
        chain, seq = (appended.stream_id, appended.domain), appended.mark.seq
        if seq != seqs.get(chain, 0) + 1:
            raise MarkConflict(*chain, seq)
        seqs[chain] = seq


class StoreUnavailable(Exception):
    """The database did not accept the call."""

    kind = ProblemKind("unavailable", 503)


class StoreDamaged(StoreUnavailable):
    """The stored data is not the data that was written."""

    def __init__(self, what: str, fault: str) -> None:
        super().__init__(f"{what} is {fault}: restore the database from a backup")


class StoreLost(StoreUnavailable):
    """Committed data will be lost with this process, which must be restarted."""
