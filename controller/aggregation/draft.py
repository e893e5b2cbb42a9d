"""The changes of one group commit, while they are collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.store.port import BacklogRecord, LateKey, LateRecord, ReaderRecord, Transaction
from noted_time import Aggregator
from noted_time.rules import SLICE_SIZE, split_slices
from noted_time.values import LatePlace, LateReport

ReaderKey = tuple[str, str, str]
GroupKey = tuple[str, str]


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
    batch: Transaction = field(default_factory=Transaction)
    keep_clock: bool = False
    _touched: dict[str, tuple[Aggregator, set[str]]] = field(default_factory=dict)
    _readers: dict[ReaderKey, ReaderRecord | None] = field(default_factory=dict)
    _backlogs: dict[GroupKey, BacklogRecord | None] = field(default_factory=dict)
    _late: dict[LateKey, LateRecord | None] = field(default_factory=dict)

    def touch(self, stream: DraftedStream) -> set[str]:
        entry = self._touched.get(stream.id)
        if entry is None:
            entry = self._touched[stream.id] = (stream.aggregator, set())
        return entry[1]

    def stream_ids(self) -> Iterable[str]:
        return self._touched.keys()

    def forget(self, stream: DraftedStream, writers: Iterable[str]) -> None:
        forgotten = set(writers)
        self.touch(stream).difference_update(forgotten)
        self.batch.forgotten_members += [(stream.id, writer) for writer in sorted(forgotten)]

    def report(self, readers: Iterable[ReaderRecord]) -> None:
        self._readers.update(((each.stream_id, each.group, each.reader), each) for each in readers)

    def forget_readers(self, readers: Iterable[ReaderKey]) -> None:
        self._readers.update(dict.fromkeys(readers))

    def keep_backlog(self, record: BacklogRecord) -> None:
        self._backlogs[record.stream_id, record.group] = record

    def forget_backlog(self, stream_id: str, group: str) -> None:
        self._backlogs[stream_id, group] = None

    def keep_late(
        self, stream_id: str, domain: str, changed: Mapping[LatePlace, LateReport | None]
    ) -> None:
        for place, report in changed.items():
            record = LateRecord(stream_id, domain, report) if report else None
            self._late[stream_id, domain, *place] = record

    def drop(self, stream: DraftedStream) -> None:
        self._touched.pop(stream.id, None)
        self._readers = {key: each for key, each in self._readers.items() if key[0] != stream.id}
        self._backlogs = {key: each for key, each in self._backlogs.items() if key[0] != stream.id}
        self._late = {key: each for key, each in self._late.items() if key[0] != stream.id}
        self.batch.dropped.append(stream.id)
        self.batch = self.batch.without_dropped()

    def finish(self) -> Iterator[None]:
        """Yield after each slice of members."""
        members = self.batch.members = []
        for stream_id, (aggregator, writers) in self._touched.items():
            for some in split_slices(list(writers)):
                members += [(stream_id, aggregator.record(each)) for each in sorted(some)]
                if len(some) == SLICE_SIZE:
                    yield
        self.batch.readers = [each for each in self._readers.values() if each is not None]
        forgotten = [key for key, each in self._readers.items() if each is None]
        self.batch.forgotten_readers = forgotten
        self.batch.backlogs = [each for each in self._backlogs.values() if each is not None]
        self.batch.forgotten_backlogs = [key for key, each in self._backlogs.items() if not each]
        self.batch.late = [each for each in self._late.values() if each is not None]
        self.batch.forgotten_late = [key for key, each in self._late.items() if each is None]

    @property
    def is_empty(self) -> bool:
        kept = (self.keep_clock, self._readers, self._backlogs, self._late)
        if any(kept) or any(writers for _, writers in self._touched.values()):
            return False
        return self.batch == Transaction(clocks=self.batch.clocks)
