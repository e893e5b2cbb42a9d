"""What one group commit is going to write, while it is being put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.store.port import AppendedMark, Batch, ReaderRecord
from controller.store.told import Told

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controller.aggregation.stream import StreamState
    from noted_time import Mark

MANY = 64
"""So many writers that noted together have their records made at once."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of the three clocks, in ms.

    `service` is what timeouts are measured on, `wall` is for people, and `steady` (monotone, since
    an arbitrary start) spaces marks.
    """

    service: int
    wall: int
    steady: int


@dataclass(slots=True)
class Draft:
    """The changes of one group commit, made in memory and not yet durable.

    A writer that notes ten times, one note a request, is written once, with what it said last.
    `keep_clock` asks for a commit that does nothing but keep the service clocks.
    """

    moment: Moment
    batch: Batch
    keep_clock: bool = False
    _touched: dict[str, tuple[StreamState, set[str]]] = field(default_factory=dict)

    @classmethod
    def at(cls, moment: Moment) -> Draft:
        """Begin an empty draft."""
        return cls(moment, Batch())

    def touched(self, stream: StreamState) -> set[str]:
        """Return the writers of `stream` whose record must be written; add to it."""
        entry = self._touched.get(stream.id)
        if entry is None:
            entry = self._touched[stream.id] = (stream, set())
        return entry[1]

    def tell(self, stream: StreamState, writers: Collection[str]) -> None:
        """Have the records of `writers` written, who noted just now.

        Those of many at once are made at once, see `Told`.
        """
        touched = self.touched(stream)
        if len(writers) < MANY:
            touched.update(writers)
        else:
            self._tell_at_once(stream, writers)

    def streams(self) -> list[StreamState]:
        """Return the streams that were touched, whose time may go on."""
        return [stream for stream, _ in self._touched.values()]

    def forget(self, stream: StreamState, writers: Iterable[str]) -> None:
        """Have the records of `writers` removed, also those that this commit would write."""
        gone = set(writers)
        self.touched(stream).difference_update(gone)
        self.batch.told = [
            told if told.stream_id != stream.id else told.without(gone) for told in self.batch.told
        ]
        self.batch.forgotten_members += [(stream.id, writer) for writer in sorted(gone)]

    def append(self, stream: StreamState, key: str, mark: Mark) -> None:
        """Have `mark` written."""
        self.batch.marks.append(AppendedMark(stream.id, key, mark, stream.service_ms(self.moment)))

    def read(self, stream: StreamState, group: str, readers: set[str]) -> None:
        """Have the records of `readers` written."""
        self.batch.readers = [
            record
            for record in self.batch.readers
            if (record.stream_id, record.group) != (stream.id, group)
            or record.reader not in readers
        ]
        state = stream.groups[group]
        self.batch.readers += [
            ReaderRecord(stream.id, group, name, name in state.readers, state.segments_of(name))
            for name in sorted(readers)
        ]

    def drop(self, stream: StreamState) -> None:
        """Have the stream removed with all it has, whatever was drafted for it before."""
        self._touched.pop(stream.id, None)
        batch = self.batch
        batch.streams = [record for record in batch.streams if record.id != stream.id]
        batch.scales = [scale for scale in batch.scales if scale[0] != stream.id]
        batch.marks = [mark for mark in batch.marks if mark.stream_id != stream.id]
        batch.told = [told for told in batch.told if told.stream_id != stream.id]
        batch.readers = [reader for reader in batch.readers if reader.stream_id != stream.id]
        batch.dropped.append(stream.id)

    def finished(self) -> Batch:
        """Return the batch to commit; the draft is done with then."""
        for stream, writers in self._touched.values():
            names = sorted(writers)
            for begin in range(0, len(names), MANY):
                self._tell_at_once(stream, names[begin : begin + MANY])
        return self.batch

    def _tell_at_once(self, stream: StreamState, writers: Iterable[str]) -> None:
        self.batch.told.append(Told.of(stream.id, stream.aggregator.fields(writers)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        b = self.batch
        made = (
            self.keep_clock
            or b.streams
            or b.scales
            or b.marks
            or b.readers
            or b.forgotten
            or b.forgotten_members
            or b.told
            or b.dropped
        )
        return not made and not any(writers for _, writers in self._touched.values())
