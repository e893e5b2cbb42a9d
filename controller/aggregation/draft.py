"""The changes of one group commit, while they are collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from controller.store.records import ChangeSet, StoredMember, StoredMembership, StreamRecord
from noted_time.rules import SLICE_SIZE, Aggregator, split_slices

POSTPONED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """The three clocks in ms, read at once.

    `service` measures timeouts, `wall` is for people, and `steady` spaces marks.
    """

    service: int
    wall: int
    steady: int


class DraftedStream(Protocol):
    """A stream in memory."""

    @property
    def id(self) -> str: ...

    aggregator: Aggregator


@dataclass(slots=True)
class Draft:
    """The changes of one group commit, made in memory but not durable yet."""

    moment: Moment
    batch: ChangeSet = field(default_factory=ChangeSet)
    keep_clock: bool = False
    _touched: dict[str, tuple[Aggregator, set[str]]] = field(default_factory=dict)

    def touch(self, stream: DraftedStream) -> set[str]:
        """Return the names of the members to write, and add to them."""
        if stream.id not in self._touched:
            self._touched[stream.id] = (stream.aggregator, set())
        _, touched_writers = self._touched[stream.id]
        return touched_writers

    def stream_ids(self) -> Iterable[str]:
        return self._touched.keys()

    def forget(self, stream: DraftedStream, writers: Iterable[str]) -> None:
        touched_writers = self.touch(stream)
        touched_writers |= stream.aggregator.take_unstored()
        for writer in sorted(writers):
            touched_writers.discard(writer)
            self.batch.drop(StoredMember, stream.id, writer)
            for domain in stream.aggregator.domains:
                self.batch.drop(StoredMembership, stream.id, domain.name, writer)

    def drop(self, stream: DraftedStream) -> None:
        self._touched.pop(stream.id, None)
        self.batch.drop(StreamRecord, stream.id)

    def finish(self) -> Iterator[None]:
        """Add the touched members and all changed memberships, and yield after each slice.

        A mark changes the memberships of the writers that it names, and nothing else of them.
        """
        for stream_id, (aggregator, touched_writers) in self._touched.items():
            postponed_writers = aggregator.take_postponed(POSTPONED_AT_ONCE)
            writers = [*(touched_writers | aggregator.take_unstored() | postponed_writers)]
            for names in split_slices(writers):
                for writer in sorted(names):
                    if writer in touched_writers:
                        self.batch.put(StoredMember(stream_id, aggregator.record(writer)))
                    for domain, membership, seq in aggregator.take_changed_memberships(writer):
                        if membership is None:
                            self.batch.drop(StoredMembership, stream_id, domain, writer)
                        else:
                            record = StoredMembership(stream_id, domain, writer, membership, seq)
                            self.batch.put(record)
                if len(names) == SLICE_SIZE:
                    yield

    @property
    def is_empty(self) -> bool:
        is_touched = any(
            writers or aggregator.has_postponed for aggregator, writers in self._touched.values()
        )
        return not (self.keep_clock or is_touched or self.batch.has_changes())
