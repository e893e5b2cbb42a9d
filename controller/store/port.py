"""What the controller asks of a database, whichever it is.

The contract that every store keeps, checked by one suite of tests:

* `commit` is atomic and durable: when it returns, all of the batch survives any crash of the
  process or the machine. After a `Conflict` nothing of it was written; after `StoreUnavailable` all
  or nothing was, and what is there has to be read again. After `StoreLost` no call succeeds.
* Marks are appended by compare-and-set on (stream, domain, seq): a batch with a mark whose
  predecessor is not the last one there (the first has seq 1) raises `MarkConflict`.
* Nothing is written to a stream that is not there: a batch that names an unknown stream id, that
  gives one name to two streams, or that repeats a scale event raises `Conflict`.
* What is read is exactly what was committed.
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
"""Stream id, domain, and the place of a report."""


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream's identity and settings; an `id` is never used again, a `name` may be.

    `declared_at` has the service time in ms at which a domain was added to an existing stream.
    `seal` is how the stream was sealed, if it was. In the domains that are `unbounded` no later
    upper is a bound. If entries of its ledger were forgotten, `ledger_from` has the time from which
    on a domain's ledger says who is missing; `late_from` is the same for late rows. `first_lowers`
    has the lower of the first mark that there ever was of a domain, and `forgotten_lowers`
    the lower when members were last forgotten. `logs` are the ids of the log
    that positions are of, the last one being that of today, empty if no note named any.
    """

    id: str
    name: str
    settings: StreamSettings
    declared_at: Mapping[str, int] = field(default_factory=dict)
    seal: Seal | None = None
    unbounded: tuple[str, ...] = ()
    ledger_from: Mapping[str, int] = field(default_factory=dict)
    late_from: Mapping[str, int] = field(default_factory=dict)
    first_lowers: Mapping[str, int] = field(default_factory=dict)
    forgotten_lowers: Mapping[str, int] = field(default_factory=dict)
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AppendedMark:
    """A mark of (stream, domain), and the service time in ms at which it was appended."""

    stream_id: str
    domain: str
    mark: Mark
    appended_at: int


@dataclass(frozen=True, slots=True)
class ReaderRecord:
    """One reader of a group and the segments that it reported last: segment → offset.

    `online` is false once it went offline and only its segments are remembered. `reported_at` is
    when it reported last, on the service clock. `backlog` is what it said of having one itself.
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
    """Whether a reader group had a backlog at the last look, and by which policy if by any.

    `since` is wall time in Unix ms, `None` before the first look. `caught_up` names the domains in
    which the group has caught up once, as the sticky rule wants to know.
    """

    stream_id: str
    group: str
    policy: BacklogPolicy | None = None
    backlog: bool = False
    since: int | None = None
    caught_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LateRecord:
    """Late rows of (stream, domain) that were reported; at most one record for each place."""

    stream_id: str
    domain: str
    report: LateReport

    @property
    def key(self) -> LateKey:
        """By which it is replaced and forgotten."""
        return self.stream_id, self.domain, *self.report.place


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """That the mark `seq` of (stream, domain) advanced without writers.

    `at` is wall time in Unix ms. The mark took the lower from `from_lower`, `None` for the first,
    to `to_lower`. `by` is who removed a writer, `None` if no operator did. `returned` names the
    writers that are missing no longer as of this mark.
    """

    stream_id: str
    domain: str
    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: tuple[Absence, ...]
    by: str | None = None
    returned: tuple[str, ...] = ()


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
"""What an operator did to a stream, to one of its writers, or to a reader group.

Or, unlike these, that another process took a writer's name over from one that was live, or that the
database has lost marks.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that an operator made to a stream: what, who, and why.

    `at` is wall time in Unix ms. `was` and `became` are plain JSON, `None` if there is
    nothing to show. `by` is an address or a token by its label and id, `comment` the
    reason that was given.
    """

    stream_id: str
    at: int
    action: Action
    writer: str | None = None
    was: Mapping[str, Any] | None = None
    became: Mapping[str, Any] | None = None
    by: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream as lists show it: the last mark of each domain with one, and the scale events."""

    record: StreamRecord
    last_marks: Mapping[str, Mark]
    scales: Sequence[ScaleEvent]


@dataclass(slots=True)
class Transaction:
    """Everything that one transaction writes, applied in the order of the fields.

    `clocks` has the service clock of buckets, in ms. `scales` numbers the events of a stream;
    numbers only have to rise. `forgotten_members` removes each (stream id, writer) that is there,
    which may come back in the same batch. `members` has (stream id, record), at most one record for
    each writer. `readers` replaces the record of that (stream, group, reader), `backlogs` that of
    (stream, group), `late` that of its key. `ledger` has entries that are new, and `changes` are
    numbered from 1 in each stream, in their order and without a gap. `forgotten_readers` removes
    each (stream id, group, reader), `forgotten_backlogs` each (stream id, group), and
    `forgotten_late` each key of late rows. `forgotten_ledger` and `forgotten_changes` remove what
    (stream id) has from before that moment in Unix ms. The last change stays, since the next one is
    numbered after it. `forgotten` drops the marks of (stream id, domain) up to and including that
    seq, but never the last mark, which the next one is compared with. `dropped` removes streams
    with all they have, also what this batch writes to them, and frees their names for streams that
    the batch makes.
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
        """Return the batch without what it writes to the streams that it drops.

        Ids are never used again, so dropping first is the same as dropping last, and it frees the
        name of a stream for another one that the batch makes.
        """
        gone = set(self.dropped)
        if not gone:
            return self
        kept: dict[str, Any] = {
            name: [each for each in getattr(self, name) if find_stream_id(each) not in gone]
            for name in STREAM_PARTS
        }
        return replace(self, **kept)

    @property
    def records(self) -> int:
        """How many records of members it writes."""
        return len(self.members)


STREAM_PARTS = tuple(
    each.name for each in fields(Transaction) if each.name not in {"clocks", "dropped"}
)
"""The parts of a transaction that write to streams, or forget what streams have."""


def find_stream_id(written: Any) -> str:  # noqa: ANN401 - an entry of one of these parts
    """Return the id of the stream to which an entry of a transaction belongs."""
    if isinstance(written, StreamRecord):
        return written.id
    stream_id: str = written[0] if isinstance(written, tuple) else written.stream_id
    return stream_id


LEASE_MS = 3000
"""How long a controller may be silent, in ms, before others take its buckets."""


@dataclass(frozen=True, slots=True)
class Leases:
    """Which controller owns which of the buckets that streams are hashed to by their names.

    `mine` are those of the store that was asked; `others` has the URL of the controller that owns
    a bucket; the rest are free. `replicas` is the number of live controllers, including this one
    until it leaves.
    """

    buckets: int
    mine: frozenset[int]
    others: Mapping[int, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def free(self) -> frozenset[int]:
        """The buckets without an owner."""
        return frozenset(range(self.buckets)) - self.mine - self.others.keys()


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """A controller of a database: its URL, the version that it runs, the revision of its tables.

    The version is `None` if noted-time is not installed. It connected at `since`, in Unix ms, which
    is `None` for the only controller of a file.
    """

    url: str
    version: str | None
    revision: str
    since: int | None


def find_running_version() -> str | None:
    """Return the version of this code, `None` if it is not installed."""
    return next((each.version for each in distributions(name="noted-time")), None)


class Reading(Protocol):
    """Reads what is committed, of any stream and at any time, also from several threads."""

    def streams(self) -> list[StreamRecord]:
        """Return all streams in the order of their names."""

    def names(self) -> list[str]:
        """Return the names of all streams in order."""

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Return summaries of those of these streams that exist, in the order of their names."""

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream in the order in which they happened."""

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        """Yield the marks that are kept of (stream, domain), in the order of their seq."""

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream in the order of their names."""

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        """Return what is kept of the backlogs of a stream's groups in the order of their names."""

    def late(self, stream_id: str) -> list[LateRecord]:
        """Return the late rows of a stream in the order of their keys."""

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        """Return at most `limit` entries of (stream, domain) after a seq, in the order of seq.

        With `newest_first` in the other order: those before that seq. After 0 come all of them.
        """

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return at most `limit` changes below a number, each with its own, the newest first."""

    def replicas_secret(self) -> bytes:
        """Return the secret by which the controllers of the database know each other.

        It is empty if an operator deleted it; then none of them takes what another forwards.
        """

    def replicas(self) -> list[ReplicaRecord]:
        """Return the controllers that are connected, by their URLs; empty unless they share it."""

    def risk(self) -> str | None:
        """Return why a power cut may lose what was acknowledged, and the remedy; `None` if none."""

    def damage(self) -> str | None:
        """Look through the whole database; return what is damaged, and the remedy."""


class Store(Reading, Protocol):
    """A database behind the controller; every call blocks, and one is made at a time.

    `local` says that only this process writes to the database. If others do, controllers share
    the buckets by leases: a store must only be given batches for streams of its own buckets, and
    cannot commit any more once it lost a lease. Then `commit` raises `StoreUnavailable` until
    `heartbeat` has begun a new session, without buckets; its caller has to read everything again.
    """

    @property
    def local(self) -> bool:
        """Whether only this process writes to the database."""

    @property
    def reading(self) -> Reading:
        """Reads the database for other threads, also the streams of other controllers."""

    def register(self, url: str) -> None:
        """Set the URL at which other controllers reach this one; before the first `heartbeat`."""

    def heartbeat(self) -> Leases:
        """Show that this controller is alive, and return who owns which bucket."""

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire those of the buckets that are free; returns those acquired."""

    def release(self, buckets: Iterable[int]) -> None:
        """Release the buckets, all of them this store's own."""

    def leave(self) -> None:
        """Release all buckets and stop counting as live; `heartbeat` still returns the owners."""

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket as of its last commit, 0 at first."""

    def commit(self, batch: Transaction) -> None:
        """Write the batch in one transaction.

        Raises `MarkConflict` when another owner appended first, another `Conflict` when the batch
        contradicts what is stored, `StoreUnavailable` when the database does not answer.
        """

    def ping(self) -> None:
        """Raise `StoreUnavailable` if the database would take no commit.

        It does not answer, may only be read, or has the tables of another version.
        """

    def close(self) -> None:
        """Close the connections."""


def check_marks(last: Mapping[tuple[str, str], int], marks: Iterable[AppendedMark]) -> None:
    """Raise `MarkConflict` at the first mark whose predecessor is not the last one there.

    `last` has the seq of the last stored mark of each (stream, domain), 0 or nothing if there is
    none.
    """
    seqs = dict(last)
    for appended in marks:
        chain, seq = (appended.stream_id, appended.domain), appended.mark.seq
        if seq != seqs.get(chain, 0) + 1:
            raise MarkConflict(*chain, seq)
        seqs[chain] = seq


class StoreUnavailable(Exception):
    """The database did not take the batch: the disk is full, the file is locked or gone."""

    kind = ProblemKind("unavailable", 503)


class StoreDamaged(StoreUnavailable):
    """What is stored is not what was written."""

    def __init__(self, what: str, why: object) -> None:
        super().__init__(f"{what} is damaged: {why}: restore the database from a backup")


class StoreLost(StoreUnavailable):
    """What is written is lost with this process, which has to be restarted."""
