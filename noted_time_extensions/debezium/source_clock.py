"""Derives the time that the committed offsets of one source partition prove.

Kafka Connect commits an offset once the broker has acknowledged all records up to it. So all
changes of commits before the offset's are in the topic. But the offset's time is not always a
commit's: in a snapshot it is the clock of Connect's worker, and stays so until the next commit.
The lesser of the times of two commits is proven by the later one, whichever of them is the clock's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from noted_time_extensions.debezium.source_offsets import SourceCommit, SourceOffset


class SteppedBack(NamedTuple):
    """A commit's time that is below a proven one by more than the delay, in µs."""

    proven_us: int
    time_us: int


@dataclass(slots=True)
class SourceClock:
    """The time that is proven for a source partition, or why none is.

    >>> clock = SourceClock(delay_us=0)
    >>> for time, place in ((10, 1), (20, 2), (20, 2), (30, 3)):
    ...     _ = clock.take(SourceOffset(SourceCommit(time, (place,))), now=0)
    >>> clock.time_us
    20
    """

    delay_us: int
    time_us: int | None = None
    is_deleted: bool = False
    is_gap: bool = False
    snapshot: str | None = None
    commit_lsn: int | None = None
    read_at: int | None = None
    """When the last offset came, in Unix ms."""
    begun_at: int | None = None
    """When the first offset came after a snapshot."""
    rose_at: int | None = None
    """When the proven time last rose."""
    _last: SourceCommit | None = field(default=None, init=False)
    _largest_us: int | None = field(default=None, init=False)

    def take(self, offset: SourceOffset, now: int) -> SteppedBack | None:
        """Take an offset that came at `now` (Unix ms). Returns a step back of its time."""
        self.read_at = now
        self.commit_lsn = offset.commit_lsn
        self.is_gap = self.is_gap or self.is_deleted
        self.is_deleted = False
        self.snapshot = offset.snapshot
        if offset.snapshot is not None:
            self.is_gap = False
            self._begin_again()
            return None
        if offset.commit is None:
            return None
        stepped_back = self._find_step_back(offset.commit)
        self._prove(offset.commit, now)
        return stepped_back

    def delete(self, now: int) -> None:
        """Take the deletion of the offset."""
        self.read_at = now
        self.is_deleted = True
        self.snapshot = None
        self._begin_again()

    def _begin_again(self) -> None:
        self.time_us = None
        self.commit_lsn = None
        self._last = None

    def _prove(self, commit: SourceCommit, now: int) -> None:
        last = self._last
        if last is None:
            self._last = commit
            self.begun_at = now
            self.rose_at = now
            return
        if commit.place == last.place:
            self._last = min(last, commit, key=attrgetter("time_us"))
            return
        self._last = commit
        proven_us = min(last.time_us, commit.time_us)
        if self.time_us is None or proven_us > self.time_us:
            self.rose_at = now
        self.time_us = proven_us
        self._largest_us = max(proven_us, self._largest_us or proven_us)

    def _find_step_back(self, commit: SourceCommit) -> SteppedBack | None:
        last_commit = self._last
        largest_us = self._largest_us
        if last_commit is None or largest_us is None or commit.place == last_commit.place:
            return None
        if commit.time_us + self.delay_us >= min(largest_us, last_commit.time_us):
            return None
        return SteppedBack(largest_us, commit.time_us)
