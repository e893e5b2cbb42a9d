"""A model of a database that several controllers share by leases: sessions, buckets, commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from controller.aggregation.owned_streams import bucket_of
from controller.store.port import Leases, Reading, StoreUnavailable
from controller.store.records import AppendedMark, BucketClock, ChangeSet
from tests.trials.judge import check_law
from tests.trials.laws import commits_are_of_owners
from tools.trials.memory_store import MemoryStore

BUCKETS = 4
NEW_CLOCKS = ChangeSet(*(BucketClock(bucket, 0) for bucket in range(BUCKETS)))
SILENT_S = 3.0
"""How long a session may be silent before other controllers end it."""


@dataclass
class Session:
    """A connection of a controller, which owns buckets as long as it lasts."""

    url: str
    heard: float
    is_live: bool = True


@dataclass
class Database:
    """What all controllers write to, and who owns which bucket.

    `committed` sees each batch and who writes it, and `log` has them all. `fails` is asked before
    and after a commit whether it fails.
    """

    now: Callable[[], float]
    committed: Callable[[str, ChangeSet], None]
    fails: Callable[[], bool]
    kept: MemoryStore = field(default_factory=MemoryStore)
    sessions: list[Session] = field(default_factory=list)
    owners: dict[int, Session] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    log: list[ChangeSet] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept.commit(NEW_CLOCKS)

    def lose(self, kept_commits: int) -> None:
        """Keep the first commits only, and no session, as when a standby lacks the others."""
        del self.log[kept_commits:]
        kept_store = MemoryStore()
        kept_store.commit(NEW_CLOCKS)
        for batch in self.log:
            kept_store.commit(batch)
        for name in ("_clocks", "tables"):  # which the stores share
            whole_table: dict[Any, Any] = vars(self.kept)[name]
            whole_table.clear()
            whole_table.update(vars(kept_store)[name])
        for session in [*self.sessions]:
            self.end(session)

    def end(self, session: Session) -> None:
        """End a session, which loses its buckets."""
        session.is_live = False
        self.sessions = [each for each in self.sessions if each is not session]
        self.owners = {
            bucket: owner for bucket, owner in self.owners.items() if owner is not session
        }


class LeasedStore(MemoryStore):
    """The store of one controller over the database.

    `acquired` says how many commits there were when it first acquired each bucket.
    """

    local = False

    def __init__(self, database: Database) -> None:
        vars(self).update(vars(database.kept))
        self.database = database
        self._url = ""
        self.session: Session | None = None
        self.acquired: dict[int, int] = {}

    @property
    def reading(self) -> Reading:
        """The database itself."""
        return self.database.kept

    def register(self, url: str) -> None:
        """Set the URL of the next session."""
        self._url = url

    def heartbeat(self) -> Leases:
        """End silent sessions of others, and return who owns what; a lost session begins anew."""
        database = self.database
        now = self.database.now()
        if self.session is None or not self.session.is_live:
            self.session = Session(self._url, now)
            database.sessions.append(self.session)
        self.session.heard = now
        for session in [*database.sessions]:
            if now - session.heard > SILENT_S:
                database.end(session)
        mine = {bucket for bucket, owner in database.owners.items() if owner is self.session}
        other_urls = {
            b: owner.url for b, owner in database.owners.items() if owner is not self.session
        }
        return Leases(BUCKETS, frozenset(mine), other_urls, len(database.sessions))

    def renew(self) -> bool:
        """Return whether the session still lasts, which the heartbeat renews."""
        return self.session is not None and self.session.is_live

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire the free ones."""
        session = self._live()
        free = frozenset(buckets) - self.database.owners.keys()
        self.database.owners |= dict.fromkeys(free, session)
        for bucket in free:
            self.acquired.setdefault(bucket, len(self.database.log))
        return free

    def release(self, buckets: Iterable[int]) -> None:
        """Give buckets back."""
        self._live()
        for bucket in buckets:
            del self.database.owners[bucket]

    def leave(self) -> None:
        """End the session."""
        self.database.end(self._live())

    def commit(self, batch: ChangeSet) -> None:
        """Keep a batch, which has to be of this store's own buckets."""
        session = self._live()
        if self.database.fails():
            raise StoreUnavailable("the batch did not come")
        own_buckets = {bucket for bucket, owner in self.database.owners.items() if owner is session}
        kept_store = self.database.kept
        names = {stream.id: stream.name for stream in self.streams()}
        marks = batch.list_puts(AppendedMark)
        written_buckets = {
            bucket_of(names[appended_mark.stream_id], BUCKETS) for appended_mark in marks
        }
        written_buckets |= {clock.number for clock in batch.list_puts(BucketClock)}
        self.database.violations += map(
            str, check_law(commits_are_of_owners, written_buckets, own_buckets)
        )
        kept_store.commit(batch)
        self.database.log.append(batch)
        self.database.committed(self._url, batch)
        if self.database.fails():
            raise StoreUnavailable("whether it was written is not known")

    def ping(self) -> None:
        """Raise if the session has ended."""
        self._live()

    def close(self) -> None:
        """End the session."""
        if self.session is not None and self.session.is_live:
            self.database.end(self.session)

    def _live(self) -> Session:
        if self.session is None or not self.session.is_live:
            raise StoreUnavailable("the session has ended")
        self.session.heard = self.database.now()
        return self.session
