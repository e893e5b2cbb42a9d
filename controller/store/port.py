"""The controller's interface to a database.

One test suite checks these rules for every store:

- `commit` is atomic, and once it returns, the batch survives any crash of the machine.
- After a `Conflict`, nothing of the batch was written.
- After `StoreUnavailable`, either all or nothing was written, and the caller must read again.
- After `StoreLost`, every call fails.
- After `StoreShared`, nothing was written, and the process must end.
- Marks are appended by compare-and-set on (stream, domain, seq), from seq 1. `commit` raises
  `MarkConflict` if a mark does not follow the last stored mark.
- `commit` raises `Conflict` for an unknown stream id, for two streams with one name, and for a
  stored scale event.
- Readers get exactly the values that were committed.

It keeps invariant 2 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from controller.store.records import (
    AppendedMark,
    Change,
    ChangeSet,
    LedgerEntry,
    LedgerPart,
    R,
    StreamRecord,
)
from noted_time.answers import Replica
from noted_time.rules import MemberRecord
from noted_time.values import Mark, MarkConflict, NotedTimeError, ProblemKind, ScaleEvent


class StreamSummary(Struct, frozen=True):
    """The facts that answers show of a stream, from memory or, in a list, from the database."""

    record: StreamRecord
    last_marks: Mapping[str, Mark]
    scales: Sequence[ScaleEvent]


LEASE_MS = 3000  # a longer silence lets others take a controller's buckets


class Leases(Struct, frozen=True):
    """The owners of the buckets that streams are hashed to by name.

    `others` has the URLs of the other owners. `replicas` counts the live controllers, including
    this one until it leaves.
    """

    buckets: int = 1
    mine: frozenset[int] = frozenset()
    others: Mapping[int, str] = {}
    replicas: int = 1

    @property
    def free(self) -> frozenset[int]:
        return frozenset(range(self.buckets)) - self.mine - self.others.keys()


class Reading(Protocol):
    """Reads committed data of any stream, in any thread. Results are sorted by key."""

    def streams(self) -> list[StreamRecord]: ...

    def names(self) -> list[str]: ...

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]: ...

    def load(self, kind: type[R], stream_id: str) -> list[R]:
        """Return a stream's records of a kind that `has_json`."""

    def members(self, stream_id: str) -> Iterator[MemberRecord]: ...

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]: ...

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        """Return entries after the seq `after`, or with `newest_first` before it (0: all)."""

    def ledger_parts(self, stream_id: str, domain: str, seq: int) -> Iterator[LedgerPart]:
        """Return the parts of a mark's entry. Only the first `part_count` belong to the entry."""

    def whole_ledger(self, stream_id: str, domain: str) -> Iterator[LedgerEntry]: ...

    def changes(self, stream_id: str, *, before: int | None, limit: int) -> list[Change]:
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
        """Check the database and the connection to it, and return the fault and the remedy."""


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
        """Return the owners, and start a session if there is none. This renews no lease."""

    def renew(self) -> bool:
        """Renew the leases in another session, or return false if they are lost.

        Another thread may call it at any time, also during another call.
        """

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]: ...

    def release(self, buckets: Iterable[int]) -> None: ...

    def leave(self) -> None:
        """Release all buckets and stop counting as live; `heartbeat` still returns the owners."""

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket at its last commit, initially 0."""

    def commit(self, batch: ChangeSet) -> None:
        """Write the batch in one transaction.

        Raises `MarkConflict` if another owner appended first, another `Conflict` if the batch
        contradicts stored data, and `StoreUnavailable`.
        """

    def ping(self) -> None:
        """Raise `StoreUnavailable` if the database would not accept a commit."""

    def close(self) -> None: ...


def check_marks(last_seqs: Mapping[tuple[str, str], int], marks: Iterable[AppendedMark]) -> None:
    """Raise `MarkConflict` at the first mark that does not follow the last one."""
    seqs = dict(last_seqs)
    for appended_mark in marks:
        chain = (appended_mark.stream_id, appended_mark.domain)
        seq = appended_mark.mark.seq
        if seq != seqs.get(chain, 0) + 1:
            raise MarkConflict(*chain, seq)
        seqs[chain] = seq


class StoreUnavailable(NotedTimeError):
    """The database did not accept the call."""

    kind = ProblemKind("unavailable", 503)


class StoreDamaged(StoreUnavailable):
    """The stored data is not the data that was written."""

    def __init__(self, damaged_part: str, fault: str) -> None:
        super().__init__(f"{damaged_part} is {fault}: restore the database from a backup")


class StoreLost(StoreUnavailable):
    """Committed data will be lost with this process, which must be restarted."""


class StoreShared(StoreUnavailable):
    """A pooler gives the session that holds the leases to other clients, too.

    To acquire the leases again would only take them from another client.
    """

    def __init__(self) -> None:
        super().__init__(
            "a pooler gives the session to others: use session mode, or connect to PostgreSQL "
            "itself"
        )
