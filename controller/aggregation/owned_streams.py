"""The streams that this controller has in memory, by name and by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from zlib import crc32

from controller.aggregation.draft import Moment
from controller.aggregation.missing import build_own_part, take_part
from controller.aggregation.stream import StreamState
from controller.store.port import Store
from controller.store.records import (
    AppendedMark,
    BucketClock,
    ChangeSet,
    LedgerEntry,
    LedgerPart,
    StreamRecord,
)
from noted_time.values import ProblemKind, UnknownStream


class NotOwner(Exception):
    """This controller does not own the stream, and has changed nothing."""

    kind = ProblemKind("no_owner", 503)

    def __init__(self, name: str) -> None:
        super().__init__(f"no controller owns the bucket of stream {name!r} now; try again")
        self.name = name


def bucket_of(name: str, buckets: int) -> int:
    """Return the bucket that a stream's name hashes to, the same in every process and version.

    >>> [bucket_of(name, 64) for name in ("flights", "flights2", "ships")]
    [42, 30, 49]
    """
    return crc32(name.encode()) % buckets


class StreamNaming(Exception):
    """A mark of the stream is made in several commits. Nothing was changed."""


class OwnedStreams:
    """The streams, and the service clocks of their buckets."""

    def __init__(self) -> None:
        self.buckets = 1
        self.clocks: dict[int, int] = {}  # how far (ms) an owned bucket's service clock is ahead
        self._stored_clocks: dict[int, int] = {}  # the service clocks as last stored
        self._by_name: dict[str, StreamState] = {}
        self._by_id: dict[str, StreamState] = {}

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name or self.bucket_of(name) in self.clocks

    def bucket_of(self, name: str) -> int:
        return bucket_of(name, self.buckets)

    def find(self, name: str) -> StreamState | None:
        stream = self._by_name.get(name)
        if stream is None and name not in self:
            raise NotOwner(name)
        return stream

    def stream(self, name: str) -> StreamState:
        state = self.find(name)
        if state is None:
            raise UnknownStream(name)
        return state

    def open(self, name: str) -> StreamState:
        """Return a stream to change it.

        Raises the same as `stream`, and `StreamNaming` if it takes no changes now.
        """
        state = self.find_open(name)
        if state is None:
            raise UnknownStream(name)
        return state

    def find_open(self, name: str) -> StreamState | None:
        state = self.find(name)
        if state is not None and state.is_naming:
            raise StreamNaming
        return state

    @property
    def changeable(self) -> Iterator[StreamState]:
        return (stream for stream in self if not stream.is_naming)

    @property
    def is_naming(self) -> bool:
        """Whether a stream takes no changes, because a mark of it is made in several commits."""
        return any(stream.is_naming for stream in self)

    def is_owned(self, stream: StreamState) -> bool:
        """Return whether the stream was neither removed, recreated nor released."""
        return self._by_id.get(stream.id) is stream

    def find_by_ids(self, stream_ids: Iterable[str]) -> Iterator[StreamState]:
        streams = map(self._by_id.get, stream_ids)
        return (stream for stream in streams if stream is not None)

    def add(self, stream: StreamState) -> None:
        stream.clock_ahead = self.clocks[self.bucket_of(stream.record.name)]
        self._by_name[stream.record.name] = stream
        self._by_id[stream.id] = stream

    def remove(self, stream: StreamState) -> None:
        del self._by_name[stream.record.name]
        del self._by_id[stream.id]

    def add_buckets(
        self,
        clocks: Mapping[int, int],
        stored_clocks: Mapping[int, int],
        streams: Iterable[StreamState],
    ) -> None:
        self.clocks |= clocks
        self._stored_clocks |= stored_clocks
        for stream in streams:
            self.add(stream)

    def drop_outside(self, buckets: AbstractSet[int]) -> list[StreamState]:
        self.clocks = {bucket: ms for bucket, ms in self.clocks.items() if bucket in buckets}
        dropped_streams = [
            stream for stream in self if self.bucket_of(stream.record.name) not in buckets
        ]
        for stream in dropped_streams:
            self.remove(stream)
        return dropped_streams

    def clocks_at(self, moment: Moment) -> list[BucketClock]:
        return [
            BucketClock(bucket, moment.service + ahead) for bucket, ahead in self.clocks.items()
        ]

    def keep_stored(self, clocks: Iterable[BucketClock]) -> None:
        self._stored_clocks |= {clock.number: clock.served_ms for clock in clocks}

    def stored_ms(self, stream: StreamState) -> int:
        """Return a stream's service clock as last stored: a restart continues from there."""
        return self._stored_clocks[self.bucket_of(stream.record.name)]

    def publish(self, batch: ChangeSet) -> Iterator[None]:
        """Show the changes that a commit made durable.

        Missing writers of new marks come first, in slices, because earlier marks do not depend on
        them. Everything else follows without a break.
        """
        self.keep_stored(batch.list_puts(BucketClock))
        streams = batch.list_puts(StreamRecord)
        records = [
            (self._by_id[record.id], record) for record in streams if record.id in self._by_id
        ]
        for part in chain(
            batch.list_puts(LedgerPart), map(build_own_part, batch.list_puts(LedgerEntry))
        ):
            stream = self._by_id.get(part.stream_id)
            if stream is not None:
                yield from take_part(stream.missing[part.domain], part)
                stream.publish_joined(part.domain, part.writers)
        for appended_mark in batch.list_puts(AppendedMark):
            stream = self._by_id.get(appended_mark.stream_id)
            if stream is not None:
                stream.publish(appended_mark)
        for changed_stream, record in records:
            changed_stream.publish_seal(record.seal)
        for (stream_id, domain), through in batch.truncated.items():
            stream = self._by_id.get(stream_id)
            if stream is not None:
                stream.forget_marks(domain, through)


def load(store: Store, buckets: AbstractSet[int], bucket_count: int) -> list[StreamState]:
    return [
        StreamState.load(record, store)
        for record in store.streams()
        if bucket_of(record.name, bucket_count) in buckets
    ]
